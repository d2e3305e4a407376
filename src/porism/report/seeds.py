"""Runs that differ by their seed alone are one model: what it comes to, and how far that can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, splits_of
from porism.report.markup import number_cell, scrolled, section
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

    def over_seeds(self, contest: RunGroup, split: str, metric: str | None = None) -> Interval | None:
        """The mean on a split and its interval, where there is a number; of the metric that counts, or another."""
        scores = [entry.record.score(split, metric or contest.metric) for entry in self.entries]
        found = [score for score in scores if score is not None]
        return interval(found) if found else None


def models_of(contest: RunGroup) -> list[SeedGroup]:
    """The ranked entries by model, the best mean first."""
    groups: dict[str, list[Entry]] = {}
    for entry in contest.ranked:
        groups.setdefault(entry.model, []).append(entry)
    models = [
        SeedGroup(name, tuple(group), tuple(score for entry in group if (score := contest.score(entry)) is not None))
        for name, group in groups.items()
    ]
    return sorted(models, key=lambda model: model.mean, reverse=contest.lower_is_better is False)


def representatives(contest: RunGroup) -> RunGroup:
    """The contest with one run of each model, the first: what is the same for all seeds is shown once."""
    first: dict[str, Entry] = {}
    for entry in contest.entries:
        first.setdefault(entry.model, entry)
    return replace(contest, entries=tuple(first.values()))


def has_seeds(contests: Sequence[RunGroup]) -> bool:
    """Whether any model was trained from more than one seed."""
    return any(len(model.entries) > 1 for contest in contests for model in models_of(contest))


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


def seeds_table(contest: RunGroup) -> Table:
    """One row a model, for a terminal."""
    splits = splits_of(entry.record for entry in contest.entries)
    made = Table(title=_title(contest), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    made.add_column("model")
    for name in ("seeds", "parameters", *splits):
        made.add_column(name, justify="right", no_wrap=True)
    for model in models_of(contest):
        scores = [trusted(model.over_seeds(contest, split)) for split in splits]
        made.add_row(model.name, str(len(model.entries)), numbers.count(model.parameters), *scores)
    return made


def seeds(contests: Sequence[RunGroup]) -> str:
    """The same for the page."""
    parts = []
    for contest in contests:
        splits = splits_of(entry.record for entry in contest.entries)
        head = "<th>model</th><th class=number>seeds</th>" + "".join(f"<th class=number>{name}</th>" for name in splits)
        rows = []
        for model in models_of(contest):
            cells = [model.over_seeds(contest, split) for split in splits]
            numbered = "".join(number_cell(trusted(cell), cell.mean if cell else None) for cell in cells)
            rows.append(f'<th scope="row">{escape(model.name)}</th>{number_cell(str(len(model.entries)))}{numbered}')
        parts.append(f'<p class="aside">{escape(_title(contest))}.</p>' + scrolled(head, rows, "means over seeds"))
    return section("Over seeds", "".join(parts))


def _title(contest: RunGroup) -> str:
    return f"{contest.metric_name.capitalize()}: means over seeds and their {100 * CONFIDENCE:.0f} % intervals"
