"""What decoding keeps of softmax within a window and its series beyond."""

from typing import NamedTuple

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.taylor.feature_maps import choose_map
from porism.layers.attention.taylor.state import TaylorState


class HybridState(NamedTuple):
    """The last W - 1 tokens, fewer early in a text, and the series' sums over those before them.

    >>> _, state = hybrid_decode(*torch.randn(3, 2, 8, 10, 16), window_size=4)      # q, k, v: B A T D
    >>> state.near.k.shape, state.far.sums.shape
    (torch.Size([2, 8, 3, 16]), torch.Size([2, 8, 161, 16]))

    `window_size` is W. A state that names none is taken for one of the layer that it is given to.
    """

    near: KVCache
    far: TaylorState
    window_size: int | None = None

    def reorder_cache(self, beam_idx: Tensor) -> "HybridState":
        """The states of the chosen texts of the batch, in the order of the indices (N,)."""
        return HybridState(self.near.reorder_cache(beam_idx), self.far.reorder_cache(beam_idx), self.window_size)

    def check(self, k: Tensor, v: Tensor, window_size: int, order: int) -> None:
        """Refuses the state of another layer; whether the near tokens fit to the new ones they say themselves."""
        if self.window_size not in (None, window_size):
            raise ShapeError(
                f"hybrid: the state is of window_size {self.window_size}, and window_size is {window_size}. "
                "Pass the state that the same layer gave."
            )
        if self.near.length >= window_size:
            raise ShapeError(
                f"hybrid: the state has {self.near.length} near tokens, and window_size {window_size} keeps up to "
                f"{window_size - 1}. Pass the state that the same layer gave."
            )
        self.far.check(k, v, order, choose_map(None, order), layer="hybrid")
