"""Baselines, simple models beside the trained ones: what they reach, and who does not beat them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup
from porism.report.contest import SAME
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
    against = {model.name: _against(group, model, score) for model, (_, score) in models}
    name, score = models[0][1]
    text = f"The best baseline on {group.split}, {name}, reaches {numbers.score(score)}"
    if len({best for _, best in models}) > 1:
        text = f"On {group.split} each model stands beside the best baseline on its own form of the data"
    equal = [model for model, found in against.items() if found == 0]
    worse = [model for model, found in against.items() if found < 0]
    if not equal and not worse:
        return [f"{text}; {f'{models[0][0].name} beats' if len(models) == 1 else 'all models beat'} it."]
    if len(worse) == len(models) > 1:
        return [f"{text}; no model beats it."]
    equals = [f"{_listed(equal)} {'equals' if len(equal) == 1 else 'equal'} it"] if equal else []
    below = [f"{_listed(worse)} {'does' if len(worse) == 1 else 'do'} not beat it"] if worse else []
    return [f"{text}; {', '.join([*equals, *below])}."]


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


def _against(group: RunGroup, model: SeedGroup, score: float) -> int:
    """1 where a model beats a baseline's score, 0 where it equals it, else -1."""
    if isclose(model.mean, score, rel_tol=SAME):
        return 0
    return 1 if (model.mean < score) == group.lower_is_better else -1


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
