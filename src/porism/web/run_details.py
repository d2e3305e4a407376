"""One run as the page shows it: facts, curves, checkpoints, cost, and how to try its model."""

from typing import Any

from porism.report import numbers
from porism.runs.difference import EMBEDDED
from porism.runs.record import Epoch, RunRecord, finite
from porism.runs.run import BEST
from porism.web.catalogue import Catalogue
from porism.web.checkpoints import run_checkpoints
from porism.web.plain_json import plain_json
from porism.web.runs import ListedRun, metric_of
from porism.web.try_forms import try_form

SPLITS = ("train", "valid")


def run_details(listed: ListedRun, record: RunRecord, catalogue: Catalogue) -> dict[str, Any]:
    """All that the page shows of a run that can be read."""
    metrics, metric = record.metrics, metric_of(record)
    return {
        "id": listed.row["id"],
        "run": listed.row,
        "facts": _facts(record),
        "recipe": plain_json(record.fields),
        "metrics": plain_json(metrics.metrics) if metrics else {},
        "metric": metric,
        "lower_is_better": listed.row["lower_is_better"],
        "curves": _curves(record, metric),
        "epochs": [_epoch(epoch) for epoch in record.epochs],
        "progress": _progress(record),
        "cost": _cost(record, catalogue),
        "checkpoint": _checkpoint(record),
        "try": try_form(record),
        "report": (record.path / "report.html").is_file(),
        "command": record.command or record.facts.repeat(),
    }


def _facts(record: RunRecord) -> dict[str, str]:
    facts, metrics = record.facts, record.metrics
    found = {
        "task": facts.task,
        "recipe": facts.recipe,
        "data": facts.source or EMBEDDED,
        "seed": str(facts.seed),
        "device": f"{facts.device}, {facts.precision}",
    }
    if metrics is not None:
        found["parameters"] = numbers.count(metrics.parameters)
        if metrics.rate and metrics.unit:
            found[f"{metrics.unit}/s"] = numbers.count(metrics.rate)
        if metrics.flops is not None:
            found[f"forward per {(metrics.unit or 'examples').removesuffix('s')}"] = numbers.amount(
                metrics.flops, "FLOP"
            )
        if metrics.seconds is not None:
            found["trained"] = numbers.duration(metrics.seconds)
    if record.facts.model is not None:
        found["model"] = record.facts.model
    return found


def _curves(record: RunRecord, metric: str | None) -> list[dict[str, Any]]:
    """The metric that counts over epochs, of train and valid."""
    curves = []
    for split in SPLITS if metric else ():
        points = [(epoch.epoch, finite(getattr(epoch, split).get(metric))) for epoch in record.epochs]
        known = [(x, y) for x, y in points if y is not None]
        if known:
            curves.append({"name": split, "x": [x for x, _ in known], "y": [y for _, y in known]})
    return curves


def _epoch(epoch: Epoch) -> dict[str, Any]:
    scores = {split: {name: finite(value) for name, value in getattr(epoch, split).items()} for split in SPLITS}
    return {"epoch": epoch.epoch, "step": epoch.step, "seconds": epoch.seconds, "best": epoch.best, **scores}


def _progress(record: RunRecord) -> dict[str, Any] | None:
    if record.progress is None or record.finished:
        return None
    at = record.progress
    return {
        "epoch": at.epoch,
        "step": at.step,
        "steps": at.steps,
        "loss": finite(at.loss),
        "rate": finite(at.rate),
        "unit": at.unit,
        "seconds_left": finite(at.seconds_left),
    }


def _cost(record: RunRecord, catalogue: Catalogue) -> dict[str, Any]:
    """The formulas that the run has written, and the address of the cost room for its recipe."""
    target = f"{record.facts.task}/{record.facts.recipe}"
    link = f"of={target}" if record.facts.model is None and target in catalogue.costs else None
    if record.metrics is None:
        return {"link": link}
    kinds = {
        kind: {"formula": cost.formula, "value": cost.value, "at": cost.at}
        for kind, cost in record.metrics.cost.items()
    }
    return {"link": link, "unit": record.metrics.unit, **plain_json(kinds)}


def _checkpoint(record: RunRecord) -> dict[str, Any]:
    """The epoch whose checkpoint counts, the files of it that are damaged, and the checkpoints that are whole."""
    known = run_checkpoints(record)
    return {
        "best_epoch": record.best.epoch if record.best else None,
        "damaged": list(known[BEST].damaged) if BEST in known else [],
        "whole": [{"name": one.name, "epoch": one.epoch} for one in known.values() if not one.damaged],
    }
