"""Which runs may be compared, and what each is called on the page.

Runs are compared where they were scored on the same examples: of one task, one source, one fingerprint of the data,
and where a recipe decides what is scored (a vocabulary, pairs of words), of the same. Seeds are pooled where nothing
but the seed differs: neither a field of the recipe nor the precision nor the kind of machine.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from porism.report import numbers
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
    """Runs of one task that were scored on the same examples, and the metric they are judged by.

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
    variant: str = ""
    """What tells it from other groups of the same source."""

    @property
    def place(self) -> str:
        return f"{self.task} on {self.source or 'its embedded data'}{f' ({self.variant})' if self.variant else ''}"

    @property
    def metric_name(self) -> str:
        return numbers.metric_name(self.metric)

    @property
    def ranked(self) -> list[Entry]:
        """The finished entries that have a number on the split that counts, best on `valid` first."""
        scored = [entry for entry in self.entries if entry.record.finished and self.score(entry) is not None]
        return sorted(scored, key=self.loss_on_valid)

    @property
    def diverged(self) -> list[Entry]:
        """The entries whose training could not go on."""
        return [entry for entry in self.entries if entry.record.diverged and not entry.record.finished]

    def loss_on_valid(self, entry: Entry) -> float:
        """The metric on `valid` with the sign that makes lower better; infinite where there is no number."""
        found = entry.record.score("valid", self.metric)
        return math.inf if found is None else -found if self.lower_is_better is False else found

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
    """The entries by what they were scored on, in the order they came."""
    scored: dict[tuple[str, str, str], list[Entry]] = {}
    # What an unfinished run will be scored on is not known yet: it goes with the first that has its data.
    homes: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    drawn = {entry.record.facts.seed for entry in entries if draws_split(entry.record)}
    several_splits = len(drawn) > 1
    for entry in sorted(entries, key=lambda entry: entry.record.metrics is None):
        facts, evaluation = entry.record.facts, evaluation_of(entry.record)
        if several_splits and draws_split(entry.record):
            # Pairs of one seed share their split.
            evaluation = "drawn by seed"
        home = (facts.task, facts.source or "", facts.fingerprint)
        key = (*home[:2], evaluation) if evaluation else homes.get(home, home)
        homes.setdefault(home, key)
        scored.setdefault(key, []).append(entry)
    ordered = [sorted(group, key=lambda entry: entry.number) for group in scored.values()]
    ordered.sort(key=lambda group: group[0].number)
    sources = Counter((group[0].record.facts.task, group[0].record.facts.source or "") for group in ordered)
    return [_group(entries, _variant(entries[0].record) if max(sources.values()) > 1 else "") for entries in ordered]


OLD_SCORED = {"words": ("window", "sample")}
"""Fields that decide which examples are scored, in runs of 0.1, which do not say on what they were."""


def evaluation_of(record: RunRecord) -> str:
    """What a finished run was scored on."""
    if record.metrics is None:
        return ""
    if record.metrics.evaluation:
        return record.metrics.evaluation
    fields = [f"{name}={record.fields.get(name)}" for name in OLD_SCORED.get(record.facts.task, ())]
    vocabulary = str(record.metrics.facts.get("sha256 of the vocabulary", ""))
    return " ".join([record.facts.fingerprint, *filter(None, [vocabulary]), *fields])


def _variant(record: RunRecord) -> str:
    """What tells apart runs that were scored on different examples of one source."""
    known = record.metrics.facts if record.metrics else {}
    words = known.get("vocabulary")
    fields = [
        f"{name}={record.fields[name]}" for name in OLD_SCORED.get(record.facts.task, ()) if name in record.fields
    ]
    vocabulary = f"vocabulary of {words:,} words" if isinstance(words, int) else ""
    return ", ".join(filter(None, [f"data {record.facts.fingerprint[:8]}", vocabulary, *fields]))


WHATEVER_FORM = {"perplexity": "bits_per_byte"}
"""Metrics that depend on how a text is cut into tokens, and those that compare between runs that cut it differently."""


def _metric(entries: list[Entry]) -> str | None:
    """What finished runs are judged by. Where the data had other forms, by a metric that does not depend on them."""
    finished = [entry.record for entry in entries if entry.record.metrics]
    metric = next((record.metrics.metric for record in finished if record.metrics), None)
    other = WHATEVER_FORM.get(metric or "")
    forms = {record.facts.fingerprint for record in finished}
    known = other and all(other in scores for r in finished if r.metrics for scores in r.metrics.metrics.values())
    return other if len(forms) > 1 and known else metric


def _group(entries: list[Entry], variant: str) -> RunGroup:
    facts = entries[0].record.facts
    finished = [entry.record.metrics for entry in entries if entry.record.metrics]
    # Before any run has finished, the first number of `valid` is the one the task puts first.
    watched = [name for entry in entries for epoch in entry.record.epochs for name in epoch.valid]
    splits = splits_of(entry.record for entry in entries)
    return RunGroup(
        task=facts.task,
        source=facts.source or "",
        metric=_metric(entries) or (watched[0] if watched else "metric"),
        lower_is_better=finished[0].lower_is_better if finished else None,
        split="test" if "test" in splits else splits[-1] if splits else "valid",
        unit=next((metrics.unit.removesuffix("s") for metrics in finished if metrics.unit), "example"),
        entries=tuple(entries),
        variant=variant,
    )


def splits_of(records: Iterable[RunRecord]) -> list[str]:
    """The splits any run was measured on: train, valid, test, then what else there is."""
    measured = [record.metrics.metrics for record in records if record.metrics]
    found = dict.fromkeys(["valid", *(split for scores in measured for split in scores)])
    usual = [split for split in ("train", "valid", "test") if split in found]
    return usual + [split for split in found if split not in usual]


def differing(records: Sequence[RunRecord]) -> list[str]:
    """The recipe's fields that are not the same in all runs; without a split that each seed draws."""
    names = dict.fromkeys(name for record in records for name in record.fields)
    if all(draws_split(record) for record in records):
        names.pop(SPLIT_SEED, None)
    return [name for name in names if len({repr(setting(record, name)) for record in records}) > 1]


def setting(record: RunRecord, name: str) -> Any:
    """A field as the run was trained with it: a precision of `auto` is the one that the machine decided."""
    return record.facts.precision if name == "precision" else record.fields.get(name)


SPLIT_SEED = "split_seed"


def draws_split(record: RunRecord) -> bool:
    """Whether a run's split of the data was drawn from its seed, as `porism compare --set split_seed=seed` does."""
    return record.fields.get("split") == "random" and record.fields.get(SPLIT_SEED) == record.facts.seed


def entries_of(records: Sequence[RunRecord]) -> list[Entry]:
    """Each run with a name of its own: the recipe's, then what differs, then the seed, then the folder."""
    same_recipe: dict[str, list[RunRecord]] = {}
    for record in records:
        same_recipe.setdefault(record.facts.recipe, []).append(record)
    models = _with_data([_model_name(record, same_recipe[record.facts.recipe]) for record in records], records)
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


def _with_data(models: Sequence[str], records: Sequence[RunRecord]) -> list[str]:
    """The names of models; after them the data, where runs of one name saw other data and that was not drawn."""
    seen: dict[str, set[str]] = {}
    for model, record in zip(models, records, strict=True):
        if not draws_split(record):
            seen.setdefault(model, set()).add(record.facts.fingerprint)
    return [
        f"{model} · data {record.facts.fingerprint[:8]}" if len(seen.get(model, ())) > 1 else model
        for model, record in zip(models, records, strict=True)
    ]


def _model_name(record: RunRecord, same_recipe: Sequence[RunRecord]) -> str:
    parts = [record.facts.recipe]
    if len({other.facts.source for other in same_recipe}) > 1:
        parts.append(record.facts.source or "embedded data")
    # The precision is told with the device.
    named = [name for name in differing(same_recipe) if name not in ("name", "precision")]
    parts += [f"{name}={record.fields.get(name)}" for name in named]
    if len({circumstances(other) for other in same_recipe}) > 1:
        parts.append(circumstances(record))
    return " · ".join(parts)


def circumstances(record: RunRecord) -> str:
    """Where a run was trained: seeds from elsewhere are another model, since the arithmetic is another.

    >>> circumstances(read_run(Path("runs/table-02")))
    'fp32 on cpu'
    """
    return f"{record.facts.precision} on {record.facts.device.partition(':')[0]}"


def machine(record: RunRecord) -> str | None:
    """The processor or GPU that a run was trained on, where it is known."""
    hardware = record.metrics.hardware if record.metrics else {}
    name = hardware.get("gpu" if record.facts.device.startswith("cuda") else "cpu")
    return str(name) if name else None


def notes_of(told: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """The notes on some models, each line once, with the names of those that it is about where it is not about all.

    >>> notes_of([("gcn", ()), ("best", ["A step makes 2 of them."])])
    ['best: A step makes 2 of them.']
    """
    models = list(told)
    about: dict[str, dict[str, None]] = {}
    for name, notes in models:
        for note in notes:
            about.setdefault(note, {})[name] = None
    count = len({name for name, _ in models})
    return [note if len(names) == count else f"{', '.join(names)}: {note}" for note, names in about.items()]
