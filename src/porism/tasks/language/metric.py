"""Perplexity: exp of the mean cross-entropy in nats over all predicted tokens."""

import math

from torch import Tensor


class Perplexity:
    """Adds up nats and tokens in float64, so that the cut into windows does not show in the number.

    >>> perplexity = Perplexity()
    >>> perplexity.add(nats=10 * math.log(2), tokens=10)
    >>> perplexity.metrics()
    {'perplexity': 2.0, 'cross_entropy': 0.6931471805599453}
    """

    def __init__(self) -> None:
        self._nats: float | Tensor = 0.0
        self._tokens = 0

    def add(self, nats: float | Tensor, tokens: int) -> None:
        """The summed, not averaged, cross-entropy of `tokens` tokens. A tensor stays on its device until the end."""
        self._nats = self._nats + (nats.detach().double() if isinstance(nats, Tensor) else nats)
        self._tokens += tokens

    def metrics(self, limit: float | None = None) -> dict[str, float]:
        """Perplexity and cross-entropy; with a known limit in nats, `excess` is what is left to learn."""
        cross_entropy = float(self._nats) / self._tokens if self._tokens else math.nan
        known = {} if limit is None else {"excess": cross_entropy - limit}
        return {"perplexity": _exp(cross_entropy), "cross_entropy": cross_entropy, **known}


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
