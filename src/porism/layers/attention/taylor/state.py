"""What Taylor attention remembers of the keys and values so far: sums over features, whatever the length."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.softmax.cache import checked_beams
from porism.layers.attention.taylor.feature_maps import MAPS, feature_map
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_whole, is_plain
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

    def in_chunks(self, size: int) -> "ChunkedTaylorState":
        """The same state, but the sums take up keys `size` at a time: see `ChunkedTaylorState`.

        >>> state = state.in_chunks(16)
        """
        check_whole("taylor", "the size of a chunk", size)
        return ChunkedTaylorState(self, None, None, size)

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
        beam_idx = checked_beams(beam_idx, self.sums)
        sums, weights = self.sums.index_select(0, beam_idx), self.weights.index_select(0, beam_idx)
        return self._replace(sums=sums, weights=weights)


class ChunkedTaylorState(NamedTuple):
    """The sums over keys before a chunk, and the keys and values that have come of it so far, by themselves.

    >>> q, k, v = torch.randn(3, 2, 8, 100, 16)                         # three times B A T D
    >>> _, prompt = taylor_decode(q[:, :, :98], k[:, :, :98], v[:, :, :98])
    >>> state = prompt.in_chunks(16)
    >>> for t in (98, 99):
    ...     y, state = taylor_decode(*(x[:, :, t : t + 1] for x in (q, k, v)), state)
    >>> state.keys.shape                                                # the sums take up these with the 16th
    torch.Size([2, 8, 2, 16])

    A token reads the sums and weighs the keys of its chunk one by one; only the last of a chunk writes sums, and to
    write them is half of the time of a large batch. What is not one token without padding, decay or gradients moves
    the sums on at once, as in a plain state.

    `before` is the state before the chunk, `keys` are (B, G, n, D) and `values` (B, G, n, H), or None before the first.
    All states of a chunk share `before`, and so does the plain one that they come from: change none of its tensors in
    place. `folded` gives sums of their own.
    """

    before: TaylorState
    keys: Tensor | None
    values: Tensor | None
    size: int

    @property
    def length(self) -> int:
        """n, the keys that the sums do not have yet."""
        return 0 if self.keys is None else self.keys.shape[2]

    def folded(self) -> TaylorState:
        """The plain state, in memory of its own: sums over all keys so far."""
        before = self.before
        if self.keys is None or self.values is None:
            return before._replace(sums=before.sums.clone(), weights=before.weights.clone())
        if before.order is None or before.feature_map is None:
            raise ShapeError("taylor: a state with keys of a chunk names no order or map. Give it those of its layer.")
        with without_autocast(self.keys):
            k, v = (x.to(before.sums.dtype) for x in (self.keys, self.values))
            phi = feature_map(before.feature_map, before.order, k.mT)(k.mT)
            # S += phi(k)^T [v, 1]
            return before._replace(sums=before.sums + phi @ v, weights=before.weights + phi.sum(3))

    def in_chunks(self, size: int) -> "ChunkedTaylorState":
        """The same state in chunks of another size; itself where it has this one already."""
        check_whole("taylor", "the size of a chunk", size)
        return self if size == self.size else self.plain().in_chunks(size)

    def plain(self) -> TaylorState:
        """As `folded`, but to read only: `before` itself where no key has come after it."""
        return self.before if self.length == 0 else self.folded()

    def check(self, k: Tensor, v: Tensor, order: int, feature_map: str) -> None:
        """Refuses what `TaylorState.check` refuses, and keys or values of other sizes, types or devices."""
        self.before.check(k, v, order, feature_map)
        check_whole("taylor", "the size of the state's chunk", self.size)
        if self.keys is None and self.values is None:
            return
        n = self.keys.shape[2] if self.keys is not None and self.keys.dim() == 4 else "n"
        for name, found, like in (("keys", self.keys, k), ("values", self.values, v)):
            expected = (*like.shape[:2], n, like.shape[3])
            if found is None or (found.shape, found.dtype, found.device) != (expected, like.dtype, like.device):
                what = "None" if found is None else f"{tuple(found.shape)}, {found.dtype} on {found.device}"
                raise ShapeError(
                    f"taylor: the {name} of the state's chunk are {what}, expected {expected}, {like.dtype} on "
                    f"{like.device}. Pass the state that the same layer gave."
                )

    def reorder_cache(self, beam_idx: Tensor) -> Self:
        """The state of the chosen texts of the batch, in the order of the indices (N,)."""
        beam_idx = checked_beams(beam_idx, self.before.sums)
        before = self.before.reorder_cache(beam_idx)
        keys, values = (None if x is None else x.index_select(0, beam_idx) for x in (self.keys, self.values))
        return self._replace(before=before, keys=keys, values=values)


def plain_state(state: Any, k: Tensor, v: Tensor, order: int, feature_map: str) -> TaylorState:
    """The state itself, or all keys of a chunked one in the sums; refused if it is not of this layer: see `check`."""
    check_state(state, k, v, order, feature_map)
    return state.plain() if isinstance(state, ChunkedTaylorState) else state


def check_state(state: Any, k: Tensor, v: Tensor, order: int, feature_map: str) -> None:
    """Refuses what is not the state of a layer with this order and map, for keys and values like these."""
    if not isinstance(state, (TaylorState, ChunkedTaylorState)):
        raise ShapeError(
            f"taylor: the state is a {type(state).__name__}, expected the TaylorState that the same layer gave."
        )
    state.check(k, v, order, feature_map)
