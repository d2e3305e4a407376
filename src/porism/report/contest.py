"""Which of several models is better, and whether that is decided.

The leader is the best on `valid`, by the mean over seeds. It is better than another where two tests agree: Student's,
of the differences on `test` in pairs of seeds, and where single examples are known, one of the reported metric on the
same examples, in the leader's direction, in the median of the seeds. The p-values are corrected by Holm's method for
all pairs of models, since any of them could have come to lead: a model that is lucky on `valid` is so on `test` too.
Fewer than five seeds decide nothing.

Among equal models one is called better in at most 5 % of experiments. With five seeds, a model that is better by one,
two or three deviations of the seeds is found to be better than a given other one in 23, 66 and 94 % of experiments of
two recipes, in 6, 27 and 61 % of four and in 2, 10 and 28 % of seven: more recipes ask for more seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isclose
from statistics import median

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, evaluation_of
from porism.report.examples import ExampleTest, compare_examples
from porism.report.seeds import SeedGroup
from porism.runs.statistics import CONFIDENCE, SIGNIFICANCE, Interval, holm, interval, t_test

SAME = 1e-9
"""A difference, as a part of a score, that is of rounding alone: 11 of 12 by two ways to divide."""
LEAST_SEEDS = 5
"""From which on a difference can be decided. With two, Student's quantile is 12.7."""


@dataclass(frozen=True)
class PairedComparison:
    """Two models over the same seeds: by how much the first, which is ahead on `valid`, is ahead on `test`."""

    first: SeedGroup
    second: SeedGroup
    leads: tuple[float, ...]
    """How much better the first is, as a positive number: one a seed that both have."""
    examples: tuple[ExampleTest, ...] = ()
    """Of each pair of seeds, where single examples are known."""
    corrected: float = 1.0
    """The p-value, corrected for the number of comparisons."""
    comparisons: int = 1

    @property
    def lead(self) -> Interval:
        return interval(self.leads)

    @property
    def is_level(self) -> bool:
        """Whether both have the same mean but for rounding."""
        return abs(self.lead.mean) <= SAME * max(map(abs, self.first.scores), default=0.0)

    @property
    def is_one_run(self) -> bool:
        """Whether no seed changed either number, and single examples are not known: five runs say what one does."""
        fixed = len({*self.first.scores}) == len({*self.second.scores}) == 1
        return fixed and len(self.leads) > 1 and not self.examples

    @property
    def p_value(self) -> float:
        """Of both tests the larger: both have to show a difference. That on examples is the median over seeds."""
        if self.is_one_run:
            return 1.0
        over_seeds = t_test(self.leads)
        over_examples = median(test.p_value for test in self.examples) if self.examples else 0.0
        return 1.0 if over_seeds is None else max(over_seeds, over_examples)

    @property
    def decided(self) -> bool:
        """Whether the first is the better of the two."""
        return len(self.leads) >= LEAST_SEEDS and self.lead.mean > 0 and self.corrected < SIGNIFICANCE


@dataclass(frozen=True)
class Contest:
    """Models that are compared, best on `valid` first, and the leader against each of the others."""

    group: RunGroup
    models: tuple[SeedGroup, ...]
    pairs: tuple[PairedComparison, ...]
    """Of all models."""
    title: str = ""
    reference: SeedGroup | None = None
    """The model that the others are held against, where there is one."""

    @property
    def comparisons(self) -> list[PairedComparison]:
        """The leader against every other."""
        return [pair for pair in self.pairs if pair.first is self.models[0]]

    @property
    def told(self) -> list[PairedComparison]:
        """The comparisons to tell of: those of the leader, then those of the reference where that is another model."""
        beside = (pair for pair in self.pairs if self.reference in (pair.first, pair.second))
        return [*self.comparisons, *(pair for pair in beside if pair.first is not self.models[0])]

    @property
    def leader_is_best(self) -> bool:
        """Whether the leader is better than every other model."""
        return bool(self.comparisons) and all(pair.decided for pair in self.comparisons)


def contest(
    group: RunGroup, models: Sequence[SeedGroup], title: str = "", reference: SeedGroup | None = None
) -> Contest:
    """Compare models in pairs; the p-values are corrected for all pairs among them."""
    ordered = tuple(sorted(models, key=lambda model: model.rank_on_valid(group)))
    pairs = [_pair(group, *two) for two in combinations(ordered, 2)]
    return correct([Contest(group, ordered, tuple(pairs), title, reference)])[0]


def correct(contests: Sequence[Contest]) -> list[Contest]:
    """The contests of one experiment with p-values that are corrected for all of its comparisons."""
    tested = [pair for one in contests for pair in one.pairs if pair.leads]
    corrected = iter(holm([pair.p_value for pair in tested]))

    def with_p(pair: PairedComparison) -> PairedComparison:
        return replace(pair, corrected=next(corrected), comparisons=len(tested)) if pair.leads else pair

    return [replace(one, pairs=tuple(with_p(pair) for pair in one.pairs)) for one in contests]


def _pair(group: RunGroup, first: SeedGroup, second: SeedGroup) -> PairedComparison:
    theirs = second.by_seed
    pairs = [
        (entry, theirs[seed])
        for seed, entry in first.by_seed.items()
        if seed in theirs and evaluation_of(entry.record) == evaluation_of(theirs[seed].record)
    ]
    tests = [compare_examples(group, *pair) for pair in pairs]
    known = [test for test in tests if test is not None]
    leads = tuple(_lead(group, *pair) for pair in pairs)
    return PairedComparison(first, second, leads, tuple(known) if len(known) == len(tests) else ())


def is_level_on_valid(group: RunGroup, first: SeedGroup, second: SeedGroup) -> bool:
    """Whether neither is ahead there but for rounding, or none has a number."""
    (lost, loss), (other_lost, other_loss) = first.rank_on_valid(group), second.rank_on_valid(group)
    return lost == other_lost and isclose(loss, other_loss, rel_tol=SAME)


def _lead(group: RunGroup, ours: Entry, theirs: Entry) -> float:
    """How much better, as a positive number. A difference of rounding alone is none: all seeds would agree on it."""
    score, other = group.score(ours) or 0.0, group.score(theirs) or 0.0
    if isclose(score, other, rel_tol=SAME):
        return 0.0
    return other - score if group.lower_is_better else score - other


def describe(group: RunGroup, pair: PairedComparison) -> str:
    """What two models came to beside one another, in a few sentences."""
    first, second = pair.first.name, pair.second.name
    if lost := [model for model in (pair.first, pair.second) if not model.entries]:
        return f"{' and '.join(model.name for model in lost)} diverged, so there is no number to compare."
    if not pair.leads:
        if first_seeds := sorted(pair.first.by_seed.keys() & pair.second.by_seed.keys()):
            return f"{first} and {second} were scored on different examples, also from seed {first_seeds[0]}."
        seeds = " and ".join(f"{model.name} has {_listed(model.by_seed)}" for model in (pair.first, pair.second))
        return f"{first} and {second} have no seed in common: {seeds}. Train both from the same seeds."
    if len(pair.leads) == 1:
        return f"One seed cannot tell {first} from {second}: add seeds, up to {LEAST_SEEDS}."
    lead, seeds = pair.lead, f"on {group.split} in pairs over {len(pair.leads)} seeds"
    side = "ahead of" if lead.mean > 0 else "behind"
    ends = (lead.low, lead.high) if lead.mean > 0 else (-lead.high, -lead.low)
    text = f"{first} is {side} {second} by {numbers.ranged(abs(lead.mean), *ends)} {seeds}"
    if pair.is_level:
        text = f"{first} and {second} are level {seeds}"
    holm = f" after Holm's correction for {pair.comparisons} comparisons" if pair.comparisons > 1 else ""
    p = f"p {p_text(pair.corrected)}{holm}"
    if pair.examples:
        return f"{text}; {_on_examples(group, pair)}. The larger p-value of the two tests: {p}. {_verdict(group, pair)}"
    return f"{text}, {p}. {_verdict(group, pair)}"


def _verdict(group: RunGroup, pair: PairedComparison) -> str:
    first, second = pair.first.name, pair.second.name
    if pair.decided:
        return f"So {first} is the better of the two on this data."
    if len(pair.leads) < LEAST_SEEDS:
        return f"Which is better is not decided: that takes {LEAST_SEEDS} seeds."
    if pair.is_one_run and not pair.is_level:
        return f"No seed changed the number of {first} or of {second}, so which is better is not decided by seeds."
    if pair.lead.mean < 0 and not pair.is_level:
        level = is_level_on_valid(group, pair.first, pair.second)
        chosen = "They are level on valid" if level else f"{first} was ahead on valid"
        return f"{chosen}, so which is better is not decided."
    over_seeds = t_test(pair.leads)
    # Each of the comparisons might have come out ahead by chance: Bonferroni's correction, which is never too mild.
    if pair.examples and over_seeds is not None and over_seeds * pair.comparisons < SIGNIFICANCE <= pair.p_value:
        return f"So {first} comes out ahead over seeds, but test sets this small do not decide between it and {second}."
    return "Which is better is not decided by these runs."


def _on_examples(group: RunGroup, pair: PairedComparison) -> str:
    """What single examples say, and what of them is tested."""
    test, p_values = pair.examples[0], [test.p_value for test in pair.examples]
    clear = sum(p < SIGNIFICANCE for p in p_values)
    return (
        f"{test.name} of the {group.metric_name} on the same {numbers.counted(test.examples, test.unit)} shows "
        f"{pair.first.name} ahead with p below {SIGNIFICANCE:.2f} in {clear} of {len(p_values)} seeds"
    )


def p_text(p: float) -> str:
    """
    >>> p_text(0.0312), p_text(0.00001), p_text(0.0496), p_text(0.3)
    ('= 0.031', '< 0.0001', '= 0.0496', '= 0.30')
    """
    if p < 0.0001:
        return "< 0.0001"
    text = f"{p:.2g}" if p < 0.1 else f"{p:.2f}"
    # Nothing is rounded across the line that decides.
    return f"= {text if (float(text) < SIGNIFICANCE) == (p < SIGNIFICANCE) else f'{p:.3g}'}"


def reached(group: RunGroup, model: SeedGroup) -> str:
    """What a model came to, and over how many seeds."""
    if not model.entries:
        return f"{model.name} diverged in all of its {len(model.diverged)} seeds."
    over = len(model.entries)
    among = "of one seed" if over == 1 else f"over {over} seeds ({100 * CONFIDENCE:.0f} % interval of the mean)"
    found = model.over_seeds(group, group.split)
    number = numbers.with_margin(found.mean, found.margin) if found else numbers.MISSING
    lost = ""
    if model.diverged:
        further = numbers.counted(len(model.diverged), "further seed")
        lost = f" It diverged in {further}, which counts as worse than any number on valid."
    return f"{model.name}: {group.split} {group.metric_name} {number} {among}.{lost}"


def _listed(seeds: dict[int, Entry]) -> str:
    return ", ".join(str(seed) for seed in sorted(seeds))
