"""Message passing along edges: rows picked by an index, perhaps multiplied, and summed by another index.

That is the product of a sparse matrix with the rows, written as `y.index_add(0, target, x[source] * weight[:, None])`,
and counts as much: a multiply-add for each number of every edge, 2 E D. Sums by index of anything else are elementwise
work.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from porism.costing.counting.arguments import tensors_in
from porism.costing.counting.operators import ADDED, base_name, named_arguments

PICKING = frozenset({"index", "_unsafe_index", "index_select", "gather"})
CARRYING = frozenset({"mul", "div", "clone", "_to_copy", "_unsafe_view"})
"""What a message goes through beside views: its weight, another number format."""
SUMMING = frozenset({"index_add", "scatter_add", "scatter_reduce", "index_put", "_index_put_impl", "_unsafe_index_put"})
SUMS = ("sum", "mean")


@dataclass
class Elementwise:
    """Elementwise work as it stands in a tally."""

    tally: dict[str, int]
    name: str
    elements: int

    def leave_out(self) -> None:
        """Take it out of the tally. Once: several sums may end products of the same multiplication."""
        self.tally[self.name] -= self.elements
        self.elements = 0


class _Message(NamedTuple):
    """What has been done to picked rows. The multiplications are part of the product once they are summed."""

    multiplied: tuple[Elementwise, ...] = ()


def follow(role: str, args: Any, out: Any, work: Elementwise | None) -> None:
    """Note that what came out of an operator that picks or carries messages is one, where it is."""
    if not isinstance(out, Tensor) or not out.is_floating_point():
        return
    if role == "picks":
        out.porism_message = _Message()  # type: ignore[attr-defined]
        return
    carried = ((leaf, known) for leaf in tensors_in(args) if (known := _message(leaf)) is not None)
    message = next((known for leaf, known in carried if leaf.numel() == out.numel()), None)
    if message is not None:
        out.porism_message = _Message((*message.multiplied, work) if work else message.multiplied)  # type: ignore[attr-defined]


def summed(operator: Any, args: Any, kwargs: Any) -> int:
    """The operations of the sparse product that an operator which sums ends: 0 where it sums no messages."""
    given = named_arguments(operator, args, kwargs)
    if not given.get("accumulate", True) or given.get("reduce", "sum") not in SUMS:
        return 0
    source = given[ADDED[base_name(operator)]]
    message = _message(source)
    if message is None:
        return 0
    for work in message.multiplied:
        work.leave_out()
    return 2 * int(source.numel())


def _message(tensor: Tensor) -> _Message | None:
    return getattr(tensor, "porism_message", None)


def role(operator: Any) -> str:
    """What an operator does to messages: it picks, carries or sums them, or nothing of that."""
    name = base_name(operator)
    if name in PICKING:
        return "picks"
    if name in SUMMING:
        return "sums"
    return "carries" if name in CARRYING or getattr(operator, "is_view", False) else ""
