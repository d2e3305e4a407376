"""What the hybrid remembers of all tokens so far: the last few as they are, the rest as sums. Its size has a bound."""

from typing import NamedTuple

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.taylor.state import TaylorState


class HybridState(NamedTuple):
    """The last W - 1 keys (B, G, W-1, D) and values (B, G, W-1, H), and the series' sums over the tokens before them.

    Early in a text there are fewer keys. `padding` is (B, W-1), True for a pad, if there was one.
    """

    k: Tensor
    v: Tensor
    far: TaylorState
    padding: Tensor | None = None

    def check(self, k: Tensor, v: Tensor, window: int, M: int) -> None:
        """Refuses the state of another layer or batch, for new keys and values."""
        for name, kept, new in (("keys", self.k, k), ("values", self.v, v)):
            if kept.shape[:2] != new.shape[:2] or kept.shape[3] != new.shape[3]:
                raise ShapeError(
                    f"hybrid: the state has {name} of {tuple(kept.shape)}, the new ones are {tuple(new.shape)}. "
                    "Pass the state that the same batch gave."
                )
        if self.k.shape[2] >= window:
            raise ShapeError(
                f"hybrid: the state has {self.k.shape[2]} near tokens, and a window of {window} keeps up to "
                f"{window - 1}. Pass the state that the same layer gave."
            )
        self.far.check((*k.shape[:2], M, v.shape[3]))
