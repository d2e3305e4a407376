"""What the contract needs to know of a layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from porism.costing.terms import Terms

Sizes = dict[str, int]
Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Mistake:
    """A call that must be refused, and the words of the refusal."""

    name: str
    call: Callable[[], Any]
    message: str


@dataclass(frozen=True)
class Case:
    """A layer at given sizes; `run` is the fast way, `naive` the slow way to the same tensor."""

    build: Callable[[Sizes], nn.Module]
    inputs: Callable[[Sizes], Inputs]
    run: Callable[[Any, Inputs], Tensor]
    naive: Callable[[Any, Inputs], Tensor]
    cost: Callable[[], Terms]
    mistakes: tuple[Mistake, ...]


# The contract's sizes say nothing of heads.
HEADS = 3
