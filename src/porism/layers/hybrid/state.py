"""What the hybrid remembers of all tokens so far: the last few as they are, the rest as sums. Its size has a bound."""

from typing import NamedTuple

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.cache import Cache
from porism.layers.taylor.features import choose_map
from porism.layers.taylor.state import TaylorState


class HybridState(NamedTuple):
    """The last W - 1 tokens, fewer early in a text, and the series' sums over those before them.

    `window` is W. A state that names none is taken for one of the layer that it is given to.
    """

    near: Cache
    far: TaylorState
    window: int | None = None

    def check(self, k: Tensor, v: Tensor, window: int, order: int) -> None:
        """Refuses the state of another layer; whether the near tokens fit to the new ones they say themselves."""
        if self.window not in (None, window):
            raise ShapeError(
                f"hybrid: the state is of a window of {self.window}, and the window is {window}. "
                "Pass the state that the same layer gave."
            )
        if self.near.length >= window:
            raise ShapeError(
                f"hybrid: the state has {self.near.length} near tokens, and a window of {window} keeps up to "
                f"{window - 1}. Pass the state that the same layer gave."
            )
        self.far.check(k, v, order, choose_map(None, order), layer="hybrid")
