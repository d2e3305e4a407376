"""The numbers of a cost at given sizes, of every kind."""

from collections.abc import ItemsView, Iterator
from dataclasses import dataclass

from porism.costing.module_row import KINDS
from porism.costing.quantity import Quantity
from porism.errors import CostError


@dataclass(frozen=True)
class CostAt:
    """The numbers of a cost at given sizes, by attribute and by key.

    >>> at = porism.cost(nn.Linear(64, 10), "B D").at(B=2)
    >>> at.flops, at["flops"]
    (2,560 FLOPs, 2,560 FLOPs)
    """

    parameters: Quantity
    flops: Quantity
    backward_flops: Quantity
    activation_bytes: Quantity

    def __getitem__(self, kind: str) -> Quantity:
        if kind not in KINDS:
            raise CostError(f"cost: there is no kind {kind!r}. Choose from {', '.join(KINDS)}.")
        quantity: Quantity = getattr(self, kind)
        return quantity

    def keys(self) -> tuple[str, ...]:
        return KINDS

    def items(self) -> ItemsView[str, Quantity]:
        return {kind: self[kind] for kind in KINDS}.items()

    def __iter__(self) -> Iterator[str]:
        return iter(KINDS)
