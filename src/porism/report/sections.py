"""What the sections of the page show, as the templates of their names take it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from porism.costing.letters import ALPHABET
from porism.report import curves, numbers
from porism.report.baselines import BaselineRow, baseline_rows
from porism.report.comparison import Entry, RunGroup, draws_split, notes_of, splits_of
from porism.report.formula import letters
from porism.report.templates import plain
from porism.report.unused import unused_in
from porism.runs.record import Metrics, PredictionRecord, RunRecord, Scores, finite

COST_TITLES = {
    "parameters": "Parameters",
    "flops": "Forward FLOPs per {unit}",
    "backward": "Backward FLOPs per {unit}",
}


def shared_facts(entries: Sequence[Entry]) -> dict[str, Any]:
    """What the task records of its data and models, as far as it is the same for all runs: the split for instance.

    A sha256 is for programs.
    """
    known = [entry.record.metrics.facts for entry in entries if entry.record.metrics]
    if not known:
        return {}
    shared = {name: value for name, value in known[0].items() if all(one.get(name) == value for one in known)}
    return {name: value for name, value in shared.items() if not name.startswith("sha256")}


@dataclass(frozen=True)
class Figure:
    """The plots of a group of runs."""

    group: RunGroup
    plots: tuple[curves.Plot, ...] = ()
    others: tuple[curves.Plot, ...] = ()
    """Small ones, of the metrics that do not count."""

    @property
    def solid_and_dashed(self) -> bool:
        """Whether valid and train share a plot."""
        return curves.share_plots(self.group)

    @property
    def has_limit(self) -> bool:
        """Whether the best possible is drawn."""
        return any(entry.record.metrics and any(entry.record.metrics.limit.values()) for entry in self.group.entries)

    @property
    def has_published(self) -> bool:
        """Whether published numbers are drawn beside the runs."""
        published = (self.group.published(entry) for entry in self.group.entries)
        return len(self.group.ranked) > 1 and any(number is not None for number in published)


def figure(group: RunGroup, prefix: str) -> Figure:
    """The plots of a group; every id in them starts with the prefix."""
    return Figure(group, tuple(curves.plots(group, prefix)), tuple(curves.other_plots(group, f"{prefix}-other")))


class PublishedRow(NamedTuple):
    """An entry, a metric, and for every split what was measured and what is published."""

    entry: Entry
    metric: str
    numbers: list[tuple[float | None, float | None]]


def published(groups: Iterable[RunGroup]) -> list[tuple[list[str], list[PublishedRow]]]:
    """Splits and rows of the groups for which more is published than the number in the table of runs."""
    found = []
    for group in groups:
        entries = [entry for entry in group.entries if _published(entry)]
        splits = [
            split
            for split in splits_of(entry.record for entry in entries)
            if any(_published(entry).get(split) for entry in entries)
        ]
        rows = [
            PublishedRow(
                entry,
                metric,
                [
                    (entry.record.score(split, metric), finite(_published(entry).get(split, {}).get(metric)))
                    for split in splits
                ],
            )
            for entry in entries
            for metric in dict.fromkeys(name for split in splits for name in _published(entry).get(split, {}))
        ]
        if splits != [group.split] or any(row.metric != group.metric for row in rows):
            found.append((splits, rows))
    return [(splits, rows) for splits, rows in found if rows]


def _published(entry: Entry) -> Mapping[str, Scores]:
    return entry.record.metrics.published if entry.record.metrics else {}


class MetricRow(NamedTuple):
    """A metric, its value for each entry, and the best possible one where that is known for any."""

    metric: str
    values: list[float | None]
    limits: list[float | None]


def all_metrics(groups: Iterable[RunGroup]) -> list[tuple[RunGroup, list[Entry], list[MetricRow]]]:
    """Every metric on the split that counts, for the groups that have more than one."""
    tables = []
    for group in groups:
        measured = [
            (entry, metrics.metrics.get(group.split, {}), metrics.limit.get(group.split, {}))
            for entry in group.entries
            if (metrics := entry.record.metrics)
        ]
        rows = [
            MetricRow(
                name,
                [finite(scores.get(name)) for _, scores, _ in measured],
                [finite(limits.get(name)) for *_, limits in measured],
            )
            for name in dict.fromkeys(name for _, scores, _ in measured for name in scores)
        ]
        if len(rows) > 1:
            tables.append((group, [entry for entry, *_ in measured], rows))
    return tables


def baselines(
    groups: Sequence[RunGroup], shown: Sequence[RunGroup]
) -> list[tuple[RunGroup, list[BaselineRow], list[str]]]:
    """The groups with baselines, with these and their splits. shown: the same groups with one run of each model."""
    found = []
    for group, few in zip(groups, shown, strict=True):
        # Of splits that are drawn for each seed the means are over all of them.
        rows = baseline_rows(group if all(draws_split(entry.record) for entry in group.entries) else few)
        splits = [split for split in splits_of(entry.record for entry in group.entries) if _any_on(rows, split)]
        if splits:
            found.append((group, rows, splits))
    return found


def _any_on(rows: Sequence[BaselineRow], split: str) -> bool:
    return any(split in row.scores for row in rows)


def costs(groups: Iterable[RunGroup]) -> list[tuple[Entry, str, Metrics]]:
    """The entries whose cost is known, each with the unit it is counted in."""
    return [
        (entry, group.unit, entry.record.metrics)
        for group in groups
        for entry in group.entries
        if entry.record.metrics and entry.record.metrics.cost
    ]


def cost_notes(groups: Iterable[RunGroup]) -> list[str]:
    """What follows from the formulas of these models, each line once."""
    return notes_of((entry.model, metrics.cost_notes) for entry, _, metrics in costs(groups))


OF_TASK = {
    "graphs": {"M": "stored entries of the features", "V": "classes"},
    "images": {"V": "classes"},
    "supervised": {"D": "inputs", "V": "outputs"},
    "words": {"B": "pairs of a word and a context"},
}
"""What a letter of the alphabet stands for in the formulas of a task, where that is something narrower."""


def letters_used(groups: Sequence[RunGroup]) -> dict[str, str]:
    """The letters of the formulas, and what they mean."""
    used = {
        letter for *_, metrics in costs(groups) for cost in metrics.cost.values() for letter in letters(cost.formula)
    }
    tasks = {group.task for group in groups}
    meanings = ALPHABET | (OF_TASK.get(tasks.pop(), {}) if len(tasks) == 1 else {})
    return {letter: meanings[letter] for letter in ALPHABET if letter in used}


def cost_title(kind: str, unit: str) -> str:
    """
    >>> cost_title("flops", "token")
    'Forward FLOPs per token'
    """
    return COST_TITLES.get(kind, kind.replace("_", " ").capitalize()).format(unit=unit)


def cost_sizes(metrics: Metrics, unit: str) -> str:
    """From which sizes the FLOPs of one unit come: formulas are of a whole batch, or of a whole graph.

    >>> cost_sizes(metrics, "token")
    'FLOPs per token are the formulas at B=16, D=128, H=128, T=20, V=2,135, divided by 320 tokens.'
    """
    passes = [metrics.cost[kind] for kind in ("flops", "backward") if kind in metrics.cost]
    sizes = {letter: size for cost in passes for letter, size in cost.sizes.items()}
    if not sizes:
        return ""
    listed = ", ".join(f"{letter}={numbers.count(size)}" for letter, size in sorted(sizes.items()))
    units = passes[0].units
    divided = f", divided by {numbers.counted(units, unit)}" if units > 1 else ""
    return f"FLOPs per {unit} are the formulas at {listed}{divided}."


def samples(entries: Iterable[Entry]) -> list[tuple[Entry, tuple[PredictionRecord, ...]]]:
    """The entries that have predictions to show, with these."""
    return [
        (entry, entry.record.metrics.samples)
        for entry in entries
        if entry.record.metrics and entry.record.metrics.samples
    ]


@dataclass(frozen=True)
class Recipes:
    """Every field of some runs, a value a run; those that differ, and of these the ones that people read."""

    fields: dict[str, list[str]]
    varied: list[str]
    telling: list[str]


def recipes(entries: Sequence[Entry]) -> Recipes:
    """The settings of all runs side by side."""
    settings = [_settings(entry.record) for entry in entries]
    names = dict.fromkeys(name for fields in settings for name in fields)
    values = {name: [fields.get(name, numbers.MISSING) for fields in settings] for name in names}
    unused = [unused_in(entry.record) for entry in entries]
    using = {
        name: {value for value, without in zip(values[name], unused, strict=True) if name not in without}
        for name in names
    }
    varied = [name for name in names if len(using[name]) > 1]
    # The names stand before every row anyway, and a sha256 is of no use to people.
    return Recipes(values, varied, [name for name in varied if name not in ("recipe", "name", "fingerprint")])


def _settings(record: RunRecord) -> dict[str, str]:
    facts = record.facts
    around = {
        "task": facts.task,
        "recipe": facts.recipe,
        "seed": facts.seed,
        "data": facts.source or "embedded",
        "device": facts.device,
        "precision": facts.precision,
        "threads": facts.threads,
        "fingerprint": facts.fingerprint,
    }
    fields = {name: value for name, value in record.fields.items() if name not in unused_in(record)}
    # What ran and not what was asked for: a precision of `auto` was decided by the machine.
    return {name: plain(value) for name, value in (around | fields | around).items() if value not in (None, "")}


def story(record: RunRecord) -> str:
    """How a run went, in one sentence."""
    metrics = record.metrics
    epochs = metrics.epochs if metrics and metrics.epochs is not None else record.epoch
    best = metrics.best_epoch if metrics else record.best.epoch if record.best else None
    parts = [numbers.counted(epochs, "epoch")]
    if best is not None and epochs > 1:
        parts[0] += f", number {best} counts"
    if record.started is not None:
        # A clock may have been set to a time that no calendar has.
        with suppress(ValueError, OverflowError, OSError):
            started = datetime.fromtimestamp(record.started, UTC)
            parts.append(f"started {started.day} {started:%B %Y, %H:%M} UTC")
    if record.resumes:
        parts.append("resumed once" if record.resumes == 1 else f"resumed {record.resumes} times")
    if record.reason:
        parts.append(f"stopped: {record.reason}")
    if not record.finished:
        parts.append("interrupted, not finished" if record.interrupted else "not finished")
    return f"{'; '.join(parts)}."
