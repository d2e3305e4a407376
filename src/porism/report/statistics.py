"""How far a number can be trusted: intervals over seeds, and tests of two models on the same examples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and how far the true one may lie to either side; None for a single value."""

    mean: float
    margin: float | None

    @property
    def low(self) -> float:
        return self.mean - (self.margin or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.margin or 0.0)

    @property
    def excludes_zero(self) -> bool:
        return self.margin is not None and (self.low > 0 or self.high < 0)


def interval(values: Sequence[float]) -> Interval:
    """Student's interval for the mean.

    >>> found = interval([0.81, 0.83, 0.82])
    >>> round(found.mean, 4), round(found.margin, 4)
    (0.82, 0.0248)
    """
    if len(values) < 2:
        return Interval(fmean(values), None)
    error = stdev(values) / math.sqrt(len(values))
    return Interval(fmean(values), student_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * error)


def student_quantile(probability: float, degrees: int) -> float:
    """Where Student's distribution has this much of its mass below, for a probability from 1/2 on.

    >>> round(student_quantile(0.975, 4), 3)
    2.776
    """
    # Sympy brings mpmath. What lies above t is half of I_x(n/2, 1/2) at x = n / (n + t^2).
    from mpmath import betainc

    def above(t: float) -> float:
        return 0.5 * float(betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True))

    low, high = 0.0, 1.0
    while above(high) > 1 - probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > 1 - probability else (low, middle)
    return high


def mcnemar(first: str, second: str) -> float:
    """The exact p-value that two models are right equally often, from a digit an example for each: 1 where it is right.

    Only examples that one of them gets right and the other wrong tell anything: under the hypothesis each of those is
    the toss of a coin.

    >>> mcnemar("1111100000", "1111111100")
    0.25
    """
    only_first = sum(a > b for a, b in zip(first, second, strict=True))
    only_second = sum(a < b for a, b in zip(first, second, strict=True))
    tosses, fewer = only_first + only_second, min(only_first, only_second)
    if not tosses:
        return 1.0
    # The sum of the binomials (tosses over k) for k = 0 ... fewer, each from the one before it.
    ways = tail = 1
    for k in range(fewer):
        ways = ways * (tosses - k) // (k + 1)
        tail += ways
    return min(1.0, float(Fraction(2 * tail, 2**tosses)))
