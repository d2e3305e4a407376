"""What the hybrid remembers of all tokens so far: the last few as they are, the rest as sums. Its size has a bound."""

from typing import NamedTuple

from porism.errors import ShapeError
from porism.layers.attention.cache import Cache
from porism.layers.taylor.state import TaylorState


class HybridState(NamedTuple):
    """The last W - 1 tokens, fewer early in a text, and the series' sums over those before them."""

    near: Cache
    far: TaylorState

    def check(self, window: int, features: tuple[int, int, int, int]) -> None:
        """Refuses the state of another layer; the features are B, G, M and H of the sums."""
        if self.near.length >= window:
            raise ShapeError(
                f"hybrid: the state has {self.near.length} near tokens, and a window of {window} keeps up to "
                f"{window - 1}. Pass the state that the same layer gave."
            )
        self.far.check(features, layer="hybrid")
