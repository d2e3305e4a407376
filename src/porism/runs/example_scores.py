"""What each example of a split adds to a metric, in `examples.json`: enough to resample it, and to pair two models.

>>> ExampleScores(metric="character_error_rate", unit="utterance", numerators=[3, 0], denominators=[20, 12]).value
0.09375
"""

import math

import msgspec


class ExampleScores(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that is a ratio of sums over examples: errors over characters, nats over words."""

    metric: str
    unit: str
    """What an example is, in the singular: utterance, document, node."""
    numerators: list[float]
    denominators: list[float]
    exponential: bool = False
    """Whether the metric is exp of the ratio, as the perplexity is."""

    @property
    def value(self) -> float:
        """The metric over all examples."""
        return self.of(sum(self.numerators) / sum(self.denominators))

    def of(self, ratio: float) -> float:
        """The metric where the sums have this ratio."""
        return math.exp(ratio) if self.exponential else ratio
