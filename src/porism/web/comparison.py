"""Runs side by side: which is better, by how much, and what else differs. Runs scored on other examples are refused."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, differing, entries_of, group_runs, setting
from porism.report.contest import is_level_on_valid
from porism.report.seeds import models_of
from porism.report.summary import summarise
from porism.report.templates import plain
from porism.runs.record import Epoch, RunRecord, finite


def compare(runs: Mapping[str, RunRecord], metric: str = "") -> dict[str, Any]:
    """The comparison of runs, by name, with those of the first one's task, data and metric.

    metric: another than the one that counts, which every run must have.
    """
    names, records = list(runs), list(runs.values())
    entries = entries_of(records)
    groups = group_runs(entries)
    group = next(group for group in groups if group.entries[0].number == 1)
    name_of = {entry.number: names[entry.number - 1] for entry in entries}
    refused = [
        {"run": name_of[entry.number], "why": _why(group, other)}
        for other in groups
        if other is not group
        for entry in other.entries
    ]
    known = _metrics(group)
    if metric and metric not in known:
        refused.append({"run": "", "why": f"not every run has {metric}: choose from {', '.join(known)}"})
        metric = ""
    shown = metric or group.metric
    compared = [entry.record for entry in group.entries]
    return {
        "headline": _headline(group),
        # The report has a section of that name; here the fields stand in a table below.
        "summary": summarise(group).replace("(see Recipes)", "(below)"),
        "metric": shown,
        "metrics": known,
        "lower_is_better": group.lower_is_better,
        "split": group.split,
        "runs": [name_of[entry.number] for entry in group.entries],
        "table": _table(group, name_of, shown),
        "curves": [_curve(name_of[entry.number], entry.record, shown) for entry in group.entries],
        "differing": [
            {"field": field, "values": [_shown(setting(record, field)) for record in compared]}
            for field in differing(compared)
            if field not in ("name", "description", "model")
        ],
        "refused": refused,
        "command": _command(group),
    }


def _metrics(group: RunGroup) -> list[str]:
    """What every run was measured by on valid."""
    each = [[name for epoch in entry.record.epochs[-1:] for name in epoch.valid] for entry in group.entries]
    return [name for name in each[0] if all(name in names for names in each)]


def _why(group: RunGroup, other: RunGroup) -> str:
    if other.task != group.task:
        return f"of another task: {other.task}, and the others are of {group.task}"
    if other.source != group.source:
        return f"on other data: {other.place}, and the others {group.place}"
    return f"scored on other examples: {other.place}"


def _headline(group: RunGroup) -> str:
    """Who is best, and what stands against saying so."""
    models = [model for model in models_of(group) if model.entries]
    split = f"{group.split} {group.metric_name}"
    if not models:
        return "No run has come to a final number yet"
    best, score = models[0], numbers.score(models[0].mean)
    if len(models) == 1:
        return f"{best.name} has a {split} of {score}"
    by_score = sorted(models, key=lambda model: model.mean, reverse=group.lower_is_better is False)
    if by_score[0] is not best:
        leader = by_score[0]
        if is_level_on_valid(group, best, leader):
            ahead = f"on {group.split} {leader.name} is ahead, with {numbers.score(leader.mean)}"
            return f"{best.name} and {leader.name} are level on valid; {ahead}"
        return f"{best.name} is best on valid; on {group.split} {leader.name} is, with {numbers.score(leader.mean)}"
    level = [model.name for model in models if numbers.score(model.mean) == score]
    if len(level) > 1:
        return f"{', '.join(level[:-1])} and {level[-1]} have the same {split}, {score}"
    word = "lowest" if group.lower_is_better else "highest"
    return f"{best.name} has the {word} {split}, {score}{_but(group, [model.entries[0] for model in models])}"


def _but(group: RunGroup, entries: Sequence[Entry]) -> str:
    """What else differs from the first of `entries`, the best: the budget, an end too early."""
    best, second = entries[:2]
    ours, theirs = best.record.epoch, second.record.epoch
    if ours > theirs > 0:
        return f", but it trained {_times(ours / theirs)} as long"
    if not _equal_budget(group):
        return ", but not all had the same number of epochs"
    if all(_still_improving(entry.record) for entry in entries):
        return f"; {'both' if len(entries) == 2 else 'all'} were still improving when they stopped"
    if _still_improving(second.record):
        return f"; {second.name} was still improving when it stopped"
    return ""


def _still_improving(record: RunRecord) -> bool:
    return record.was_improving and not record.rate_falls


def _equal_budget(group: RunGroup) -> bool:
    return len({entry.record.fields.get("epochs") for entry in group.entries}) == 1


def _times(ratio: float) -> str:
    words = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}
    return words.get(round(ratio), f"{ratio:.0f} times") if abs(ratio - round(ratio)) < 0.05 else f"{ratio:.1f} times"


def _table(group: RunGroup, name_of: Mapping[int, str], metric: str) -> dict[str, Any]:
    """Results before facts; `best` names the columns in which a run is the best."""
    fewest = min((entry.record.epoch for entry in group.entries if entry.record.epochs), default=0)
    split = [] if group.split == "valid" else [group.split]
    at_fewest = f"valid at {fewest} epoch{'' if fewest == 1 else 's'}"
    columns = [*split, "valid", at_fewest, "epochs", "trained", f"forward per {group.unit}", "parameters"]
    scores = [_scores(group, entry, metric, fewest) for entry in group.entries]
    rows = []
    for entry, own in zip(group.entries, scores, strict=True):
        metrics = entry.record.metrics
        cells = [None if value is None else numbers.score(value) for value in own]
        cells += [
            numbers.count(entry.record.epoch),
            numbers.duration(sum(epoch.seconds for epoch in entry.record.epochs)),
            numbers.amount(metrics.flops, "FLOP") if metrics and metrics.flops is not None else None,
            numbers.count(metrics.parameters) if metrics and metrics.parameters is not None else None,
        ]
        best = [index for index, value in enumerate(own) if value is not None and value == _best(group, scores, index)]
        rows.append({"run": name_of[entry.number], "name": entry.name, "cells": cells, "best": best})
    return {"columns": columns, "rows": rows}


def _scores(group: RunGroup, entry: Entry, metric: str, fewest: int) -> list[float | None]:
    record = entry.record
    at_fewest = next((epoch for epoch in record.epochs if epoch.epoch == fewest), None)
    own = [] if group.split == "valid" else [record.score(group.split, metric)]
    return [*own, record.score("valid", metric), finite(at_fewest.valid.get(metric)) if at_fewest else None]


def _best(group: RunGroup, scores: Sequence[Sequence[float | None]], index: int) -> float | None:
    known = [own[index] for own in scores if own[index] is not None]
    if len(known) < 2 or group.lower_is_better is None:
        return None
    return min(known) if group.lower_is_better else max(known)  # type: ignore[type-var]


def _curve(name: str, record: RunRecord, metric: str) -> dict[str, Any]:
    """A metric on valid over epochs, seconds, tokens and FLOPs."""
    epochs = [epoch for epoch in record.epochs if finite(epoch.valid.get(metric)) is not None]
    seconds = [round(record.seconds_until(epoch), 3) for epoch in epochs]
    units = _units(record, epochs)
    flops = record.metrics.training_flops if record.metrics else None
    return {
        "run": name,
        "epochs": [epoch.epoch for epoch in epochs],
        "seconds": seconds,
        "tokens": units,
        "flops": None if units is None or flops is None else [each * flops for each in units],
        "y": [finite(epoch.valid.get(metric)) for epoch in epochs],
    }


def _units(record: RunRecord, epochs: Sequence[Epoch]) -> list[int] | None:
    """The tokens or examples that were trained on until each epoch; every epoch has the same number."""
    metrics = record.metrics
    if metrics is None or not metrics.rate or not metrics.seconds or not metrics.epochs:
        return None
    each = metrics.rate * metrics.seconds / metrics.epochs
    return [round(epoch.epoch * each) for epoch in epochs]


def _shown(value: Any) -> str:
    return "–" if value is None else plain(value)


def _command(group: RunGroup) -> str:
    """What trains the same recipes on an equal budget; nothing where they had one."""
    if _equal_budget(group):
        return ""
    recipes = list(dict.fromkeys(entry.record.facts.recipe for entry in group.entries))
    fewest = min((entry.record.fields.get("epochs") or 1 for entry in group.entries), default=1)
    data = ["--data", group.source] if group.source else []
    return shlex.join(["porism", "compare", group.task, *recipes, *data, "--epochs", str(fewest)])
