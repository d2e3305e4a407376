"""What single examples of a split say of a run: the interval of its metric, and a test of two runs on the same ones."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from porism.report.comparison import Entry, RunGroup
from porism.runs.example_scores import ExampleScores
from porism.runs.record import RunRecord
from porism.runs.statistics import binomial_interval, bootstrap_interval, mcnemar, paired_bootstrap, resample

AGREES = 1e-5
"""How far the metric of all examples may lie from the reported one, relatively: both are rounded on their way."""
LEAST_RESAMPLED = 10
"""So many examples, drawn with replacement, leave an interval that holds the mean of normal numbers nine times in ten;
of 2 it does half of the time."""
MCNEMAR, BOOTSTRAP = "McNemar's test", "a paired bootstrap"


@dataclass(frozen=True)
class ExampleInterval:
    """A 95 % confidence interval of the metric, by the choice of test examples alone."""

    low: float
    high: float
    examples: int
    unit: str
    right: int | None = None
    """How many the model was right on, where that is what is counted."""


@dataclass(frozen=True)
class ExampleTest:
    """A test that two runs are equally good on the same examples."""

    name: str
    examples: int
    unit: str
    p_value: float
    """1 where the examples speak for the second."""


def of_examples(group: RunGroup, entry: Entry) -> ExampleInterval | None:
    """The interval of a run's metric on the split that counts, where its examples are known, and not too few."""
    record = entry.record
    if (digits := _right(group, record)) is not None:
        right = digits.count("1")
        low, high = binomial_interval(right, len(digits))
        return ExampleInterval(low, high, len(digits), _unit(group), right)
    if (scores := _scores(group, record)) is not None and len(scores.numerators) >= LEAST_RESAMPLED:
        low, high = (scores.of(end) for end in bootstrap_interval(_resampled(scores)))
        return ExampleInterval(low, high, len(scores.numerators), scores.unit)
    return None


def too_few(group: RunGroup, entry: Entry) -> bool:
    """Whether its examples are known, but leave no interval."""
    scores = _scores(group, entry.record)
    return _right(group, entry.record) is None and scores is not None and len(scores.numerators) < LEAST_RESAMPLED


def compare_examples(group: RunGroup, first: Entry, second: Entry) -> ExampleTest | None:
    """A test in pairs of the metric that counts, in the direction of the first.

    None where examples are not known, or too few.
    """
    a, b = _right(group, first.record), _right(group, second.record)
    if a is not None and b is not None and len(a) == len(b):
        p = mcnemar(a, b) if a.count("1") > b.count("1") else 1.0
        return ExampleTest(MCNEMAR, len(a), _unit(group), p)
    ours, theirs = _scores(group, first.record), _scores(group, second.record)
    if ours is None or theirs is None or ours.unit != theirs.unit or ours.denominators != theirs.denominators:
        return None
    if len(ours.numerators) < LEAST_RESAMPLED:
        return None
    p = paired_bootstrap(_resampled(ours), _resampled(theirs))
    ahead = ours.value < theirs.value if group.lower_is_better else ours.value > theirs.value
    return ExampleTest(BOOTSTRAP, len(ours.numerators), ours.unit, p if ahead else 1.0)


def _unit(group: RunGroup) -> str:
    return {"graphs": "node", "images": "image", "sentiment": "text", "speech": "utterance"}.get(group.task, "example")


def _right(group: RunGroup, record: RunRecord) -> str | None:
    """A digit an example, where the reported metric is the share of those that are right."""
    digits, score = record.outcomes.get(group.split, ""), record.score(group.split, group.metric)
    if not digits or score is None or group.lower_is_better:
        return None
    return digits if abs(digits.count("1") / len(digits) - score) <= AGREES else None


def _scores(group: RunGroup, record: RunRecord) -> ExampleScores | None:
    """What each example adds to the reported metric, where that is what it adds up to."""
    scores, reported = record.examples.get(group.split), record.score(group.split, group.metric)
    if scores is None or reported is None or scores.metric != group.metric or not sum(scores.denominators):
        return None
    return scores if abs(scores.value - reported) <= AGREES * max(1.0, abs(reported)) else None


def _resampled(scores: ExampleScores) -> NDArray[np.float64]:
    return _resample(tuple(scores.numerators), tuple(scores.denominators))


@lru_cache(maxsize=128)
def _resample(numerators: tuple[float, ...], denominators: tuple[float, ...]) -> NDArray[np.float64]:
    """Kept, since every run is compared with many others."""
    return resample(np.array([numerators, denominators], dtype=np.float64).T)  # N 2
