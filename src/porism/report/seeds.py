"""Runs that differ by their seed alone are one model: what it comes to, and how far that can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, draws_split, splits_of
from porism.report.examples import of_examples
from porism.runs.statistics import CONFIDENCE, Interval, interval


@dataclass(frozen=True)
class SeedGroup:
    """The finished runs of one model, one a seed, which differ by their seed alone, and what each came to."""

    name: str
    entries: tuple[Entry, ...]
    scores: tuple[float, ...]
    diverged: tuple[Entry, ...] = ()
    """Runs of further seeds whose training could not go on."""
    repeats: tuple[Entry, ...] = ()
    """Further runs of a seed, which are left out."""

    @property
    def mean(self) -> float:
        return fmean(self.scores) if self.scores else math.nan

    @property
    def by_seed(self) -> dict[int, Entry]:
        return {entry.record.facts.seed: entry for entry in self.entries}

    @property
    def parameters(self) -> float | None:
        metrics = self.entries[0].record.metrics if self.entries else None
        return metrics.parameters if metrics else None

    @property
    def flops(self) -> float | None:
        metrics = self.entries[0].record.metrics if self.entries else None
        return metrics.flops if metrics else None

    def over_seeds(self, group: RunGroup, split: str, metric: str | None = None) -> Interval | None:
        """The mean on a split and its interval, where there is a number; of the metric that counts, or another."""
        scores = [entry.record.score(split, metric or group.metric) for entry in self.entries]
        found = [score for score in scores if score is not None]
        return interval(found) if found else None

    def rank_on_valid(self, group: RunGroup) -> tuple[int, float]:
        """Lower is better: how many seeds diverged, then the mean on `valid`; infinite where a seed has no number."""
        losses = [group.loss_on_valid(entry) for entry in self.entries]
        return len(self.diverged), fmean(losses) if losses else math.inf


def models_of(group: RunGroup) -> list[SeedGroup]:
    """The finished and the diverged entries by model, the best mean on `valid` first."""
    by_model: dict[str, list[Entry]] = {}
    ranked = {entry.number for entry in group.ranked}
    for entry in group.entries:
        if entry.number in ranked:
            by_model.setdefault(entry.model, []).append(entry)
    lost: dict[str, list[Entry]] = {}
    for entry in group.diverged:
        by_model.setdefault(entry.model, [])
        lost.setdefault(entry.model, []).append(entry)
    models = []
    for name, entries in by_model.items():
        one_a_seed: dict[int, Entry] = {}
        for entry in entries:
            one_a_seed.setdefault(entry.record.facts.seed, entry)
        first = tuple(one_a_seed.values())
        scores = tuple(score for entry in first if (score := group.score(entry)) is not None)
        repeats = tuple(entry for entry in entries if one_a_seed[entry.record.facts.seed] is not entry)
        diverged = tuple(entry for entry in lost.get(name, ()) if entry.record.facts.seed not in one_a_seed)
        models.append(SeedGroup(name, first, scores, diverged, repeats))
    return sorted(models, key=lambda model: model.rank_on_valid(group))


def representatives(group: RunGroup) -> RunGroup:
    """The group with one run of each model, the first: what is the same for all seeds is shown once."""
    first: dict[str, Entry] = {}
    for entry in group.entries:
        first.setdefault(entry.model, entry)
    return replace(group, entries=tuple(first.values()))


def has_seeds(groups: Sequence[RunGroup]) -> bool:
    """Whether any model was trained from more than one seed."""
    return any(len(model.entries) > 1 for group in groups for model in models_of(group))


def trusted(found: Interval | None) -> str:
    """
    >>> trusted(Interval(0.8213, 0.0041)), trusted(Interval(0.8213, None))
    ('0.8213 ± 0.0041', '0.8213')
    """
    if found is None:
        return numbers.MISSING
    return numbers.with_margin(found.mean, found.margin)


def seeds_text(model: SeedGroup) -> str:
    """How many seeds finished, and how many diverged."""
    lost = f" ({len(model.diverged)} diverged)" if model.diverged else ""
    return f"{len(model.entries)}{lost}"


def seeds_table(group: RunGroup) -> Table:
    """One row a model, for a terminal."""
    splits = splits_of(entry.record for entry in group.entries)
    made = Table(title=_title(group), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    made.add_column("model")
    for name in ("seeds", "parameters", *splits):
        made.add_column(name, justify="right", no_wrap=True)
    for model in models_of(group):
        scores = [trusted(model.over_seeds(group, split)) for split in splits]
        made.add_row(model.name, seeds_text(model), numbers.count(model.parameters), *scores)
    return made


@dataclass(frozen=True)
class SeedTable:
    """One row a model, for the page: the mean on each split, with its interval."""

    title: str
    coverage: str
    splits: list[str]
    rows: list[tuple[SeedGroup, list[Interval | None]]]


def seeds_of(group: RunGroup) -> SeedTable:
    """The same for the page."""
    splits = splits_of(entry.record for entry in group.entries)
    rows = [(model, [model.over_seeds(group, split) for split in splits]) for model in models_of(group)]
    return SeedTable(_title(group), coverage(group), splits, rows)


def _title(group: RunGroup) -> str:
    return f"{numbers.sentence(group.metric_name)}: means over seeds and their {100 * CONFIDENCE:.0f} % intervals"


def coverage(group: RunGroup) -> str:
    """What the intervals over seeds leave out: they are of one split of the data and one test set."""
    if all(draws_split(entry.record) for entry in group.entries):
        return "Every seed drew its own split of the data: the intervals are of the mean over both."
    text = "The intervals are of the mean over seeds, on one split of the data and one test set"
    first = [entry for model in models_of(group) for entry in model.entries[:1]]
    known = [(entry, found) for entry in first if (found := of_examples(group, entry))]
    if not known:
        return f"{text}; what another test set would change is not in them."
    entry, found = known[0]
    # Not as a margin: near 0 and 1 the interval has its longer side away from them.
    ends = numbers.ranged(group.score(entry) or 0.0, found.low, found.high)
    return f"{text}; its {numbers.counted(found.examples, found.unit)} alone leave {entry.name} at {ends}."
