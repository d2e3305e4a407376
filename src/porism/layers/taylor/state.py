"""What the series remembers of all keys so far: sums whose size does not grow with their number."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.taylor.features import MAPS


class TaylorState(NamedTuple):
    """The sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M): float32 or better.

    `order` and `map` are those of phi. A state that names none is taken for one of the layer that it is given to.
    """

    sums: Tensor
    weights: Tensor
    order: int | None = None
    map: str | None = None

    @classmethod
    def split(cls, joined: Tensor, order: int, map: str) -> Self:
        """From (B, G, M, H+1), where the sums of phi(k) are the last column."""
        return cls(joined[..., :-1], joined[..., -1], order, map)

    def joined(self) -> Tensor:
        return torch.cat([self.sums, self.weights.unsqueeze(-1)], dim=-1)

    def check(self, k: Tensor, v: Tensor, order: int, map: str, layer: str = "taylor") -> None:
        """Refuses a state of another layer, batch, type or device than the new keys and values have."""
        wanted = (*k.shape[:2], MAPS[map].size(order, k.shape[3]), v.shape[3])
        if self.sums.shape != wanted or self.weights.shape != wanted[:-1]:
            raise ShapeError(
                f"{layer}: the state is {tuple(self.sums.shape)} and {tuple(self.weights.shape)}, wanted {wanted} and "
                f"{wanted[:-1]}: batch, key heads, features, value width. Pass the state that the same layer gave."
            )
        if (self.order or order, self.map or map) != (order, map):
            raise ShapeError(
                f"{layer}: the state is of order {self.order} and the {self.map} map, wanted order {order} and the "
                f"{map} map. Pass the state that the same layer gave."
            )
        dtype = torch.promote_types(k.dtype, torch.float32)
        for part in (self.sums, self.weights):
            if part.dtype != dtype or part.device != k.device:
                raise ShapeError(
                    f"{layer}: the state is {part.dtype} on {part.device}, wanted {dtype} on {k.device}. "
                    "Pass the state that the same layer gave, or convert it."
                )
