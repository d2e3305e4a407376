"""What the series remembers of all keys so far: sums whose size does not grow with their number."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from porism.errors import ShapeError


class TaylorState(NamedTuple):
    """The sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M): float32 or better."""

    sums: Tensor
    weights: Tensor

    @classmethod
    def split(cls, joined: Tensor) -> Self:
        """From (B, G, M, H+1), where the sums of phi(k) are the last column."""
        return cls(joined[..., :-1], joined[..., -1])

    def joined(self) -> Tensor:
        return torch.cat([self.sums, self.weights.unsqueeze(-1)], dim=-1)

    def check(self, wanted: tuple[int, int, int, int], layer: str = "taylor") -> None:
        """Refuses a state of another layer or batch; wanted are B, G, M and H."""
        if tuple(self.sums.shape) != wanted or tuple(self.weights.shape) != wanted[:-1]:
            raise ShapeError(
                f"{layer}: the state is {tuple(self.sums.shape)} and {tuple(self.weights.shape)}, wanted {wanted} and "
                f"{wanted[:-1]}: batch, key heads, features, value width. Pass the state that the same layer gave."
            )
