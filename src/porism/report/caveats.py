"""What a reader must know of runs beside their numbers: what is left out, where they were trained, what test holds."""

from collections.abc import Sequence

from porism.report import numbers
from porism.report.comparison import RunGroup, draws_split, machine
from porism.report.seeds import SeedGroup


def caveats(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    """All that is true of these models, of the finished, the diverged and the repeated runs."""
    return [
        *_training_data(models),
        *_machines(models),
        *diverged(models),
        *_left_out(group, models),
        *_copies(group, models),
        *_split(group),
    ]


FORM = ("tokenizer", "lowercase", "min_count", "max_vocab_size")
"""Fields that decide how a text is cut into tokens, which its fingerprint is of."""


def _training_data(models: Sequence[SeedGroup]) -> list[str]:
    """Texts that share their test may differ in what was trained on."""
    fingerprints: dict[tuple[str, ...], set[str]] = {}
    for record in (entry.record for model in models for entry in model.entries):
        if not draws_split(record):
            form = tuple(str(record.fields.get(name)) for name in FORM)
            fingerprints.setdefault(form, set()).add(record.facts.fingerprint)
    if all(len(found) == 1 for found in fingerprints.values()):
        return []
    return ["They were trained on different data, so this is no comparison of the models alone."]


def _machines(models: Sequence[SeedGroup]) -> list[str]:
    """Another processor, or another version of torch, computes other sums."""
    records = [entry.record for model in models for entry in model.entries]
    sentences = []
    if len(names := {name for record in records if (name := machine(record))}) > 1:
        sentences.append(f"They were trained on different machines: {', '.join(sorted(names))}.")
    versions = {str(record.metrics.versions.get("torch")) for record in records if record.metrics}
    if len(known := sorted(versions - {"None"})) > 1:
        sentences.append(f"They were trained with different versions of torch: {', '.join(known)}.")
    return sentences


def diverged(models: Sequence[SeedGroup]) -> list[str]:
    """Runs that came to no number count as the worst on valid, and are named."""
    lost = [entry.name for model in models for entry in model.diverged]
    beside = ", so worst on valid" if any(model.entries for model in models) else ""
    return [f"Diverged{beside}: {', '.join(lost)}."] if lost else []


def _left_out(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    sentences = []
    if repeats := [entry.name for model in models for entry in model.repeats]:
        sentences.append(f"Left out, since a run of the same seed is there: {', '.join(repeats)}.")
    known = {entry.number for model in models for entry in (*model.entries, *model.diverged, *model.repeats)}
    if unranked := [entry.name for entry in group.entries if entry.number not in known]:
        sentences.append(f"Not ranked for want of a final number: {', '.join(unranked)}.")
    return sentences


def _copies(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    """Examples that a model was trained on and is tested on."""
    measured = [entry.record.metrics for model in models for entry in model.entries if entry.record.metrics]
    # Of splits that are drawn for each seed, that with the most.
    metrics = max(measured, key=lambda metrics: metrics.copies.get(group.split, 0), default=None)
    copies = metrics.copies.get(group.split, 0) if metrics else 0
    if not metrics or not copies:
        return []
    examples = numbers.count(metrics.examples[group.split])
    return [
        f"Of {examples} {group.split} examples {numbers.count(copies)} are in train too: of new ones they say little."
    ]


def _split(group: RunGroup) -> list[str]:
    if group.split != "valid" or not group.ranked:
        return []
    return ["There is no test split, and valid chose the epochs: on other examples expect less."]
