"""How far a number can be trusted: intervals over seeds and examples, tests in pairs, corrected for their number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

CONFIDENCE, SIGNIFICANCE = 0.95, 0.05
RESAMPLES = 10_000
"""Of a bootstrap: p-values down to 2 in 10,000."""
ROUNDING = 1e-12
"""A spread, as a part of the values, that is of floating point alone."""
AT_ONCE = 2**20
"""Drawn examples of a bootstrap that are held together."""


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
    return Interval(fmean(values), student_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * _standard_error(values))


def t_test(differences: Sequence[float]) -> float | None:
    """The two-sided p-value of Student's test that paired differences have the mean 0; None for fewer than two.

    >>> round(t_test([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    if len(differences) < 2:
        return None
    mean, error = fmean(differences), _standard_error(differences)
    if not error:
        return 0.0 if mean else 1.0
    return min(1.0, 2 * student_tail(abs(mean) / error, len(differences) - 1))


def _standard_error(values: Sequence[float]) -> float:
    """Of the mean: the deviation over the root of how many there are; 0 where they differ by rounding alone."""
    mean = fmean(values)
    if max(values) - min(values) <= ROUNDING * max(map(abs, values)):
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def student_tail(t: float, degrees: int) -> float:
    """What Student's distribution has above t, for t from 0 on: to 1e-15, by the finite sums for whole degrees."""
    # With tan a = t / sqrt(n), within -t and t lie, for even and for odd n,
    #   sin a (1 + cos^2 a / 2 + (1 3) / (2 4) cos^4 a + ...                       up to cos^(n-2) a)
    #   2 / pi (a + sin a (cos a + 2/3 cos^3 a + (2 4) / (3 5) cos^5 a + ...       up to cos^(n-2) a))
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine, odd = math.sin(angle), math.cos(angle), degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    within = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return max(0.0, (1 - within) / 2)


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Where Student's distribution has this much of its mass below, for a probability from 1/2 on.

    >>> round(student_quantile(0.975, 4), 3)
    2.776
    """
    low, high = 0.0, 1.0
    while student_tail(high, degrees) > 1 - probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, degrees) > 1 - probability else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's method: all below 0.05 are false together in at most 5 %.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        corrected[number] = largest
    return corrected


def mcnemar(first: str, second: str) -> float:
    """The exact p-value that two models are right equally often, from a digit an example for each: 1 where it is right.

    Only examples that one of them gets right and the other wrong tell anything: under the hypothesis each of those is
    the toss of a coin.

    >>> round(mcnemar("1111100000", "1111111100"), 12)
    0.25
    """
    only_first = sum(a > b for a, b in zip(first, second, strict=True))
    only_second = sum(a < b for a, b in zip(first, second, strict=True))
    tosses, fewer = only_first + only_second, min(only_first, only_second)
    # The sum of the binomials (tosses over k) for k = 0 ... fewer over 2^tosses, by the logarithm of the largest.
    largest = math.lgamma(tosses + 1) - math.lgamma(fewer + 1) - math.lgamma(tosses - fewer + 1)
    term = total = 1.0
    for k in range(fewer, 0, -1):
        term *= k / (tosses - k + 1)
        total += term
    return min(1.0, 2 * total * math.exp(largest - tosses * math.log(2)))


def binomial_interval(right: int, examples: int) -> tuple[float, float]:
    """Clopper and Pearson's interval for a share, from how many of the examples were right.

    >>> [round(end, 4) for end in binomial_interval(12, 12)]
    [0.7354, 1.0]
    """
    counts = np.arange(examples + 1)
    # Logarithms of the binomial coefficients, (N,): their ratio from one to the next is (N - k) / (k + 1).
    steps = np.log(examples - counts[:-1]) - np.log1p(counts[:-1])
    coefficients = np.concatenate(([0.0], np.cumsum(steps)))

    def at_least(successes: int, share: float) -> float:
        """P(at least `successes` right) where each is right with this probability."""
        terms = coefficients + counts * math.log(share) + (examples - counts) * math.log1p(-share)
        return float(np.exp(terms[successes:]).sum())

    def solve(successes: int, probability: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_least(successes, middle) < probability else (low, middle)
        return high

    tail = SIGNIFICANCE / 2
    return solve(right, tail) if right else 0.0, solve(right + 1, 1 - tail) if right < examples else 1.0


Sums = NDArray[np.float64]
"""What each example adds to the numerator and to the denominator of a metric: (N, 2)."""


def resample(sums: Sums) -> NDArray[np.float64]:
    """The ratio of the sums (R,) over test sets drawn with replacement, the same for all models of as many."""
    examples = len(sums)
    # Each in one piece: numbers are drawn three times as fast from it as pairs of them.
    numerators, denominators = np.ascontiguousarray(sums.T)
    generator = np.random.default_rng(examples)
    ratios = np.empty(RESAMPLES)
    block = max(1, AT_ONCE // examples)
    for begin in range(0, RESAMPLES, block):
        drawn = generator.integers(examples, size=(min(block, RESAMPLES - begin), examples))
        ratios[begin : begin + len(drawn)] = numerators.take(drawn).sum(1) / denominators.take(drawn).sum(1)
    return ratios


def bootstrap_interval(resampled: NDArray[np.float64]) -> tuple[float, float]:
    """The percentiles between which the number lies on 95 % of the resampled test sets."""
    low, high = np.percentile(resampled, [100 * SIGNIFICANCE / 2, 100 * (1 - SIGNIFICANCE / 2)])
    return float(low), float(high)


def paired_bootstrap(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The two-sided p-value that two models are equally good, from the numbers of both on the same resampled test sets.

    Twice the smaller share of test sets on which the one or the other is ahead, ties counted to both.
    """
    fewer = min(int((first <= second).sum()), int((first >= second).sum()))
    return min(1.0, 2 * (fewer + 1) / (len(first) + 1))
