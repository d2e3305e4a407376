"""What Taylor attention remembers of the keys and values so far: sums over features, whatever the length."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.softmax.functional import check_beams
from porism.layers.attention.taylor.feature_maps import MAPS
from porism.layers.operands import is_plain
from porism.layers.operators import is_recorded


class TaylorState(NamedTuple):
    """The sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M): float32 or better.

    >>> _, state = taylor_decode(*torch.randn(3, 2, 8, 10, 16))                     # q, k, v: B A T D
    >>> state.sums.shape, state.weights.shape, state.order
    (torch.Size([2, 8, 161, 16]), torch.Size([2, 8, 161]), 2)

    `order` and `feature_map` are those of phi. A state that names none is taken for one of the layer that it is given
    to.
    """

    sums: Tensor
    weights: Tensor
    order: int | None = None
    feature_map: str | None = None

    @classmethod
    def split(cls, joined: Tensor, order: int, feature_map: str) -> Self:
        """From (B, G, M, H+1), where the sums of phi(k) are the last column."""
        return cls(joined[..., :-1], joined[..., -1], order, feature_map)

    def joined(self) -> Tensor:
        """(B, G, M, H+1), the sums of phi(k) as the last column: without a copy where they lie so already."""
        if self._is_joined():
            *sizes, H = self.sums.shape
            return self.sums.as_strided((*sizes, H + 1), self.sums.stride())
        return torch.cat([self.sums, self.weights.unsqueeze(-1)], dim=-1)

    def _is_joined(self) -> bool:
        """Whether the two are parts of one tensor, as `split` makes them, and no gradient goes to either."""
        sums, weights = self.sums, self.weights
        if not is_plain(sums) or not is_plain(weights) or is_recorded((sums, weights)):
            return False
        *strides, step = sums.stride()
        return (
            step == 1
            and tuple(strides) == weights.stride()
            and weights.storage_offset() == sums.storage_offset() + sums.shape[-1]
            and strides[-1] > sums.shape[-1]
            and weights.untyped_storage().data_ptr() == sums.untyped_storage().data_ptr()
        )

    def check(self, k: Tensor, v: Tensor, order: int, feature_map: str, layer: str = "taylor") -> None:
        """Refuses a state of another layer, batch, type or device than the new keys and values have."""
        expected = (*k.shape[:2], MAPS[feature_map].size(order, k.shape[3]), v.shape[3])
        if self.sums.shape != expected or self.weights.shape != expected[:-1]:
            raise ShapeError(
                f"{layer}: the state is {tuple(self.sums.shape)} and {tuple(self.weights.shape)}, expected {expected} "
                f"and {expected[:-1]}: batch, key heads, features, value width. Pass the state that the layer gave."
            )
        if (self.order or order, self.feature_map or feature_map) != (order, feature_map):
            raise ShapeError(
                f"{layer}: the state is of order {self.order} and the {self.feature_map} map, expected order {order} "
                f"and the {feature_map} map. Pass the state that the same layer gave."
            )
        dtype = torch.promote_types(k.dtype, torch.float32)
        for part in (self.sums, self.weights):
            if part.dtype != dtype or part.device != k.device:
                raise ShapeError(
                    f"{layer}: the state is {part.dtype} on {part.device}, expected {dtype} on {k.device}. "
                    "Pass the state that the same layer gave, or convert it."
                )

    def reorder_cache(self, beam_idx: Tensor) -> Self:
        """The sums of the chosen texts of the batch, in the order of the indices (N,)."""
        check_beams(beam_idx, self.sums)
        sums, weights = self.sums.index_select(0, beam_idx), self.weights.index_select(0, beam_idx)
        return self._replace(sums=sums, weights=weights)


def check_state(state: Any, k: Tensor, v: Tensor, order: int, feature_map: str) -> None:
    """Refuses what is not the state of a layer with this order and map, for keys and values like these."""
    if not isinstance(state, TaylorState):
        raise ShapeError(
            f"taylor: the state is a {type(state).__name__}, expected the TaylorState that the same layer gave."
        )
    state.check(k, v, order, feature_map)
