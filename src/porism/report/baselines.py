"""Baselines, simple models beside the trained ones: what they reach, and who does not beat them."""

from collections.abc import Sequence
from dataclasses import dataclass

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup
from porism.report.seeds import SeedGroup, models_of
from porism.runs.record import finite


@dataclass(frozen=True)
class BaselineRow:
    """A simple model's name and its number on each split."""

    name: str
    scores: dict[str, float]


def baseline_rows(group: RunGroup) -> list[BaselineRow]:
    """The baselines of a group, once each; after the run's name where runs saw the data in another form."""
    found: dict[str, list[tuple[Entry, dict[str, float]]]] = {}
    for entry in group.entries:
        for name, scores in _scores(group, entry).items():
            seen = found.setdefault(name, [])
            if scores not in [others for _, others in seen]:
                seen.append((entry, scores))
    return [
        BaselineRow(name if len(seen) == 1 else f"{name}, on the data of {entry.name}", scores)
        for name, seen in found.items()
        for entry, scores in seen
    ]


def against_baselines(group: RunGroup) -> list[str]:
    """The best baseline, and the models that do not beat it."""
    models = [(model, best) for model in models_of(group) if (best := _best(group, model)) is not None]
    if not models:
        return []
    not_better = [model.name for model, (_, score) in models if not _beats(group, model, score)]
    name, score = models[0][1]
    text = f"The best baseline, {name}, reaches {numbers.score(score)}"
    if len({best for _, best in models}) > 1:
        text = "Each model stands beside the best baseline on its own form of the data"
    if not not_better:
        return [f"{text}; {f'{models[0][0].name} beats' if len(models) == 1 else 'all models beat'} it."]
    if len(not_better) == len(models) > 1:
        return [f"{text}; no model beats it."]
    return [f"{text}; {_listed(not_better)} {'does' if len(not_better) == 1 else 'do'} not beat it."]


def baselines_line(group: RunGroup) -> str:
    """For a terminal: the baselines' numbers on the split that counts, and the sentence about them."""
    known = [(row.name, row.scores[group.split]) for row in baseline_rows(group) if group.split in row.scores]
    reached = ", ".join(f"{name} {numbers.score(score)}" for name, score in known)
    sentences = [f"Baselines on {group.split}: {reached}.", *against_baselines(group)] if known else []
    return " ".join([*sentences, *baseline_notes(group)])


def baseline_notes(group: RunGroup) -> list[str]:
    """What to know of the baselines of a group, each line once."""
    lines = [entry.record.metrics.baseline_notes for entry in group.entries if entry.record.metrics]
    return list(dict.fromkeys(line for notes in lines for line in notes))


def _scores(group: RunGroup, entry: Entry) -> dict[str, dict[str, float]]:
    """Name, then split, to the number that the group is judged by."""
    metrics = entry.record.metrics
    if metrics is None:
        return {}
    found = {
        name: {split: finite(scores.get(group.metric)) for split, scores in splits.items()}
        for name, splits in metrics.baselines.items()
    }
    return {
        name: {split: score for split, score in splits.items() if score is not None} for name, splits in found.items()
    }


def _best(group: RunGroup, model: SeedGroup) -> tuple[str, float] | None:
    known = [
        (name, scores[group.split])
        for entry in model.entries[:1]
        for name, scores in _scores(group, entry).items()
        if group.split in scores
    ]
    if not known:
        return None
    return (min if group.lower_is_better else max)(known, key=lambda pair: pair[1])


def _beats(group: RunGroup, model: SeedGroup, score: float) -> bool:
    return model.mean < score if group.lower_is_better else model.mean > score


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
