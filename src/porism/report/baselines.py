"""Baselines, simple models beside the trained ones: what they reach, and who does not beat them.

A model beats a baseline where Student's test over five seeds or more tells its mean from the baseline's number, and
the interval of its first run over test examples, where these are known, leaves that number out. Of several models any
may come out ahead by chance: the p-values are corrected by Holm's method. Otherwise a model may be ahead, and no more
is said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isclose
from statistics import fmean
from typing import Literal

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, draws_split
from porism.report.contest import LEAST_SEEDS, SAME
from porism.report.examples import of_examples, too_few
from porism.report.seeds import SeedGroup, models_of
from porism.runs.record import finite
from porism.runs.statistics import SIGNIFICANCE, holm, t_test


@dataclass(frozen=True)
class BaselineRow:
    """A simple model's name and its number on each split."""

    name: str
    scores: dict[str, float]


def baseline_rows(group: RunGroup) -> list[BaselineRow]:
    """The baselines of a group, once each: their means where every seed drew its own split, else one after the run's
    name for each form of the data that runs saw.
    """
    found: dict[str, list[tuple[Entry, dict[str, float]]]] = {}
    for entry in group.entries:
        for name, scores in _scores(group, entry).items():
            seen = found.setdefault(name, [])
            if scores not in [others for _, others in seen]:
                seen.append((entry, scores))
    if all(draws_split(entry.record) for entry in group.entries):
        return [_mean_over_splits(group, name) for name in found]
    return [
        BaselineRow(name if len(seen) == 1 else f"{name}, on the data of {entry.name}", scores)
        for name, seen in found.items()
        for entry, scores in seen
    ]


def _mean_over_splits(group: RunGroup, name: str) -> BaselineRow:
    by_seed = {entry.record.facts.seed: _scores(group, entry).get(name, {}) for entry in group.entries}
    splits = dict.fromkeys(split for scores in by_seed.values() for split in scores)
    means = {split: fmean(scores[split] for scores in by_seed.values() if split in scores) for split in splits}
    return BaselineRow(f"{name}, mean over the splits" if len(by_seed) > 1 else name, means)


def against_baselines(group: RunGroup) -> list[str]:
    """The best baseline, and the models that do not beat it."""
    models = [(model, best) for model in models_of(group) if (best := _best(group, model)) is not None]
    if not models:
        return []
    p_values = holm([_p_value(model, scores) for model, (_, scores) in models])
    found = {
        model.name: _against(group, model, scores, p) for (model, (_, scores)), p in zip(models, p_values, strict=True)
    }
    name, score = models[0][1][0], fmean(models[0][1][1])
    level = _level(group, models[0][0], name, score)
    named = f"{name}, level with {_listed(level)}" if level else name
    text = f"The best baseline on {group.split}, {named}, reaches {numbers.score(score)}"
    # A run that diverged, or seeds that one model lacks, make no other form of the data.
    if not _share_baselines(group, [model for model, _ in models]):
        text = f"On {group.split} each model stands beside the best baseline on its own form of the data"
    if set(found.values()) == {"behind"} and len(found) > 1:
        return [f"{text}; no model beats it."]
    fewest = min(len(model.entries) for model, _ in models)
    undecided = f"which takes {LEAST_SEEDS} seeds to decide" if fewest < LEAST_SEEDS else "which is not decided"
    verbs = {
        "equal": ("equals it", "equal it"),
        "behind": ("does not beat it", "do not beat it"),
        "beats": ("beats it", "beat it"),
        "ahead": (f"is ahead of it, {undecided}", f"are ahead of it, {undecided}"),
    }
    parts = []
    for outcome, (one, several) in verbs.items():
        if names := [name for name, of_model in found.items() if of_model == outcome]:
            who = "all models" if len(names) == len(found) > 1 else _listed(names)
            parts.append(f"{who} {one if len(names) == 1 else several}")
    return [f"{text}; {'; '.join(parts)}."]


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


def _best(group: RunGroup, model: SeedGroup) -> tuple[str, tuple[float, ...]] | None:
    """The baseline with the best mean on the data of the model's runs, and its number on that of each."""
    each = [_scores(group, entry) for entry in model.entries]
    known = {
        name: tuple(scores[name][group.split] for scores in each)
        for name in (each[0] if each else ())
        if all(group.split in scores.get(name, {}) for scores in each)
    }
    if not known:
        return None
    return (min if group.lower_is_better else max)(known.items(), key=lambda pair: fmean(pair[1]))


def _level(group: RunGroup, model: SeedGroup, name: str, score: float) -> list[str]:
    """Other baselines with the number of the best."""
    each = [_scores(group, entry) for entry in model.entries]
    others = [other for other in each[0] if other != name and all(group.split in s.get(other, {}) for s in each)]
    means = {other: fmean(scores[other][group.split] for scores in each) for other in others}
    return [other for other, mean in means.items() if isclose(mean, score, rel_tol=SAME)]


def _share_baselines(group: RunGroup, models: Sequence[SeedGroup]) -> bool:
    """Whether all models have the same baselines on the data of a seed: of each seed where they draw their splits."""
    if all(draws_split(entry.record) for entry in group.entries):
        seen = [{seed: _scores(group, entry) for seed, entry in model.by_seed.items()} for model in models]
        return all(one[seed] == seen[0][seed] for one in seen for seed in one.keys() & seen[0].keys())
    return len({_best(group, replace(model, entries=model.entries[:1])) for model in models}) == 1


def _p_value(model: SeedGroup, scores: Sequence[float]) -> float:
    """That the mean over seeds is the baseline's number; 1 where too few seeds say."""
    leads = [own - score for own, score in zip(model.scores, scores, strict=True)]
    p = t_test(leads) if len(leads) >= LEAST_SEEDS else None
    return 1.0 if p is None else p


def _against(
    group: RunGroup, model: SeedGroup, scores: Sequence[float], p_value: float
) -> Literal["equal", "behind", "beats", "ahead"]:
    """How a model stands to a baseline's numbers, on the data of each of its runs."""
    score = fmean(scores)
    if isclose(model.mean, score, rel_tol=SAME):
        return "equal"
    if (model.mean < score) != group.lower_is_better:
        return "behind"
    examples = of_examples(group, model.entries[0])
    is_outside = not too_few(group, model.entries[0])
    if examples is not None:
        is_outside = not examples.low <= scores[0] <= examples.high
    return "beats" if is_outside and p_value < SIGNIFICANCE else "ahead"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
