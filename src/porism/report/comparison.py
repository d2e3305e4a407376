"""Which runs may be compared, and what each is called on the page."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from porism.runs.record import RunRecord, finite


@dataclass(frozen=True)
class Entry:
    """A run with its number and its name on the page.

    `model` is the name without the seed: runs that share it differ by chance alone.
    """

    number: int
    name: str
    model: str
    record: RunRecord


@dataclass(frozen=True)
class RunGroup:
    """Runs of one task on the same data, and the metric they are judged by.

    `lower_is_better` is None as long as no run has finished to say so.
    """

    task: str
    source: str
    metric: str
    lower_is_better: bool | None
    split: str
    unit: str
    """What one example is called: the rates and the costs are counted in it."""
    entries: tuple[Entry, ...]

    @property
    def place(self) -> str:
        return f"{self.task} on {self.source or 'its embedded data'}"

    @property
    def metric_name(self) -> str:
        return self.metric.replace("_", " ")

    @property
    def ranked(self) -> list[Entry]:
        """The finished entries that have a number on the split that counts, best first."""
        scored = [entry for entry in self.entries if entry.record.finished and self.score(entry) is not None]
        return sorted(scored, key=lambda entry: self.score(entry) or 0.0, reverse=self.lower_is_better is False)

    def score(self, entry: Entry) -> float | None:
        return entry.record.score(self.split, self.metric)

    def published(self, entry: Entry, split: str | None = None) -> float | None:
        metrics = entry.record.metrics
        return finite(metrics.published.get(split or self.split, {}).get(self.metric)) if metrics else None

    def limit(self, entry: Entry) -> float | None:
        """The best any model can reach on this data, where that is known."""
        metrics = entry.record.metrics
        return finite(metrics.limit.get(self.split, {}).get(self.metric)) if metrics else None


def group_runs(entries: Sequence[Entry]) -> list[RunGroup]:
    """The entries by task and data, in the order they came."""
    by_data: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        facts = entry.record.facts
        by_data.setdefault((facts.task, facts.source or ""), []).append(entry)
    return [_group(task, source, group) for (task, source), group in by_data.items()]


def _group(task: str, source: str, entries: list[Entry]) -> RunGroup:
    finished = [entry.record.metrics for entry in entries if entry.record.metrics]
    # Before any run has finished, the first number of `valid` is the one the task puts first.
    watched = [name for entry in entries for epoch in entry.record.epochs for name in epoch.valid]
    splits = splits_of(entry.record for entry in entries)
    return RunGroup(
        task=task,
        source=source,
        metric=finished[0].metric if finished else watched[0] if watched else "metric",
        lower_is_better=finished[0].lower_is_better if finished else None,
        split="test" if "test" in splits else splits[-1] if splits else "valid",
        unit=next((metrics.unit.removesuffix("s") for metrics in finished if metrics.unit), "example"),
        entries=tuple(entries),
    )


def splits_of(records: Iterable[RunRecord]) -> list[str]:
    """The splits any run was measured on: train, valid, test, then what else there is."""
    measured = [record.metrics.metrics for record in records if record.metrics]
    found = dict.fromkeys(["valid", *(split for scores in measured for split in scores)])
    usual = [split for split in ("train", "valid", "test") if split in found]
    return usual + [split for split in found if split not in usual]


def differing(records: Sequence[RunRecord]) -> list[str]:
    """The recipe's fields that are not the same in all runs."""
    names = dict.fromkeys(name for record in records for name in record.fields)
    return [name for name in names if len({repr(record.fields.get(name)) for record in records}) > 1]


def entries_of(records: Sequence[RunRecord]) -> list[Entry]:
    """Each run with a name of its own: the recipe's, then what differs, then the seed, then the folder."""
    same_recipe: dict[str, list[RunRecord]] = {}
    for record in records:
        same_recipe.setdefault(record.facts.recipe, []).append(record)
    models = [_model_name(record, same_recipe[record.facts.recipe]) for record in records]
    seeds: dict[str, set[int]] = {}
    for model, record in zip(models, records, strict=True):
        seeds.setdefault(model, set()).add(record.facts.seed)
    names = [
        f"{model} · seed {record.facts.seed}" if len(seeds[model]) > 1 else model
        for model, record in zip(models, records, strict=True)
    ]
    shared = Counter(names)
    return [
        Entry(number, f"{name} · {record.path.name}" if shared[name] > 1 else name, model, record)
        for number, (name, model, record) in enumerate(zip(names, models, records, strict=True), 1)
    ]


def _model_name(record: RunRecord, same_recipe: Sequence[RunRecord]) -> str:
    parts = [record.facts.recipe]
    if len({other.facts.source for other in same_recipe}) > 1:
        parts.append(record.facts.source or "embedded data")
    parts += [f"{name}={record.fields.get(name)}" for name in differing(same_recipe) if name != "name"]
    return " · ".join(parts)
