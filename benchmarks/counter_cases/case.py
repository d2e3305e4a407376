"""One case of the counters benchmark: something to run, and what it costs by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, NamedTuple, TypeAlias

import torch
from sympy import Expr, factor, sympify

from porism.costing.alphabet import SYMBOLS

SIZES = {
    "B": 3, "T": 7, "D": 10, "H": 6, "A": 2, "M": 5, "K": 4, "W": 3, "V": 11, "N": 9, "E": 13, "C": 4, "Y": 8, "X": 5,
}  # fmt: skip
"""Sizes that hide no factor. A case's formula must hold at any; the tests try others."""


Formula: TypeAlias = Expr | int


class Call(NamedTuple):
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    return Call(target, args, kwargs)


@dataclass(frozen=True)
class Case:
    """What to run, and its products by hand, in the alphabet. `build` makes a fresh call at the sizes its letters name.

    >>> case = Case("linear", lambda B, D, H: call(nn.Linear(D, H), asking(B, D)), 2 * B * D * H, 4 * B * D * H)
    >>> case.make().target, case.hand(case.forward)
    (Linear(in_features=10, out_features=6, bias=True), 360)
    """

    name: str
    build: Callable[..., Call]
    forward: Formula
    backward: Formula
    elementwise: Formula | None = None
    """Operations an element in the forward pass, shown where there is no product to show."""
    needs_values: bool = False
    """Its count or its code reads numbers, so shapes alone cannot run it."""

    def make(self, sizes: Mapping[str, int] = SIZES) -> Call:
        torch.manual_seed(0)
        return self.build(**{letter: sizes[letter] for letter in signature(self.build).parameters})

    @staticmethod
    def hand(formula: Formula, sizes: Mapping[str, int] = SIZES) -> int:
        """The formula at these sizes."""
        return int(sympify(formula).subs({SYMBOLS[letter]: size for letter, size in sizes.items()}))


def written(formula: Formula) -> str:
    """The formula as people write it: 8·B·H·T·(D + H)."""
    whole = sympify(formula)
    return str(whole if whole.is_Mul else factor(whole)).replace("**", "^").replace("*", "·")
