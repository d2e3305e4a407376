"""Runs that differ by their seed alone are one model: what it comes to, and how far that can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, splits_of
from porism.report.statistics import CONFIDENCE, Interval, interval


@dataclass(frozen=True)
class SeedGroup:
    """The finished runs of one model, which differ by their seed alone, and what each came to."""

    name: str
    entries: tuple[Entry, ...]
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def parameters(self) -> float | None:
        metrics = self.entries[0].record.metrics
        return metrics.parameters if metrics else None

    @property
    def flops(self) -> float | None:
        metrics = self.entries[0].record.metrics
        return metrics.flops if metrics else None

    def over_seeds(self, group: RunGroup, split: str, metric: str | None = None) -> Interval | None:
        """The mean on a split and its interval, where there is a number; of the metric that counts, or another."""
        scores = [entry.record.score(split, metric or group.metric) for entry in self.entries]
        found = [score for score in scores if score is not None]
        return interval(found) if found else None


def models_of(group: RunGroup) -> list[SeedGroup]:
    """The ranked entries by model, the best mean first."""
    by_model: dict[str, list[Entry]] = {}
    for entry in group.ranked:
        by_model.setdefault(entry.model, []).append(entry)
    models = [
        SeedGroup(name, tuple(entries), tuple(score for entry in entries if (score := group.score(entry)) is not None))
        for name, entries in by_model.items()
    ]
    return sorted(models, key=lambda model: model.mean, reverse=group.lower_is_better is False)


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
    text = numbers.score(found.mean)
    # The margin with the decimals of the mean.
    return text if found.margin is None else f"{text} ± {numbers.gap(found.mean, found.mean + found.margin)}"


def seeds_table(group: RunGroup) -> Table:
    """One row a model, for a terminal."""
    splits = splits_of(entry.record for entry in group.entries)
    made = Table(title=_title(group), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    made.add_column("model")
    for name in ("seeds", "parameters", *splits):
        made.add_column(name, justify="right", no_wrap=True)
    for model in models_of(group):
        scores = [trusted(model.over_seeds(group, split)) for split in splits]
        made.add_row(model.name, str(len(model.entries)), numbers.count(model.parameters), *scores)
    return made


@dataclass(frozen=True)
class SeedTable:
    """One row a model, for the page: the mean on each split, with its interval."""

    title: str
    splits: list[str]
    rows: list[tuple[SeedGroup, list[Interval | None]]]


def seeds_of(group: RunGroup) -> SeedTable:
    """The same for the page."""
    splits = splits_of(entry.record for entry in group.entries)
    rows = [(model, [model.over_seeds(group, split) for split in splits]) for model in models_of(group)]
    return SeedTable(_title(group), splits, rows)


def _title(group: RunGroup) -> str:
    return f"{group.metric_name.capitalize()}: means over seeds and their {100 * CONFIDENCE:.0f} % intervals"
