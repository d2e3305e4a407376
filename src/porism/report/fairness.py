"""Whether models that are compared had the same chance: their budget, what else differs, who was still improving."""

from collections.abc import Sequence

from porism.report import numbers
from porism.report.comparison import setting
from porism.report.seeds import SeedGroup
from porism.report.templates import plain
from porism.report.unused import unused_in
from porism.runs.record import RunRecord

NAMED = 6
"""Fields that are named; of more only the number is."""
NOT_SETTINGS = {"name", "description", "model", "epochs", "max_seconds"}
"""Fields that name the model, or its budget."""


def fairness(models: Sequence[SeedGroup]) -> list[str]:
    """The budget, what differs beside the model, and who was still improving when it ended."""
    return [*_budget(models), *_differences(models), *improving(models)]


def side_by_side(records: Sequence[RunRecord]) -> list[str]:
    """Which times were measured while trainings shared the machine: these are longer than alone."""
    shared = [record for record in records if record.at_a_time > 1]
    if not shared:
        return []
    counts = sorted({record.at_a_time for record in shared})
    who = "All times" if len(shared) == len(records) else f"The times of {len(shared)} of {len(records)} runs"
    together = " or ".join(map(str, counts))
    return [
        f"{who} were measured with {together} trainings at a time, which share the machine: alone they are shorter."
    ]


def _budget(models: Sequence[SeedGroup]) -> list[str]:
    limits = {model.name: _seconds_allowed(model) for model in models}
    allowed = {model.name: _epochs_allowed(model) for model in models}
    trained = {model.name: _epochs(model) for model in models}
    if None in allowed.values():
        allowed = trained
    seconds, several = set(limits.values()), len(set(allowed.values())) > 1
    if seconds == {""}:
        if not several and (epochs := next(iter(allowed.values()))):
            stopped = [f"{name} after {own}" for name, own in trained.items() if own and own != epochs]
            early = f"; {', '.join(stopped)} stopped, no longer improving on valid" if stopped else ""
            return [f"Equal budget: up to {_counted(epochs)} each{early}."]
    elif len(seconds) == 1 and not several:
        return [f"Equal budget: up to {seconds.pop()} of training each."]
    listed = [
        f"{' or '.join(filter(None, (_counted(epochs), limits[name])))} for {name}"
        for name, epochs in allowed.items()
        if epochs
    ]
    if not listed:
        return []
    return [f"Their budgets differ: {', '.join(listed)}, so this is no comparison of the models alone."]


def _counted(epochs: str) -> str:
    """
    >>> _counted("1"), _counted("8 to 12")
    ('1 epoch', '8 to 12 epochs')
    """
    return f"{epochs} epoch{'s' * (epochs != '1')}"


def _records(models: Sequence[SeedGroup]) -> list[RunRecord]:
    return [entry.record for model in models for entry in model.entries]


def _seconds_allowed(model: SeedGroup) -> str:
    """The longest that its runs may train: "60 seconds", or nothing where time is no limit."""
    limits = {entry.record.fields.get("max_seconds") or 0 for entry in model.entries}
    return f"{max(limits):g} seconds" if max(limits, default=0) else ""


def _epochs_allowed(model: SeedGroup) -> str | None:
    allowed = {entry.record.fields.get("epochs") for entry in model.entries}
    return plain(allowed.pop()) if len(allowed) == 1 and None not in allowed else None


def _epochs(model: SeedGroup) -> str | None:
    """How long its runs trained: "12", or "8 to 12"."""
    found = [entry.record.metrics.epochs for entry in model.entries if entry.record.metrics]
    epochs = [number for number in found if number is not None]
    if not epochs:
        return None
    least, most = numbers.count(min(epochs)), numbers.count(max(epochs))
    return least if least == most else f"{least} to {most}"


def _differences(models: Sequence[SeedGroup]) -> list[str]:
    """What differs beside the model, and is not in its name: each recipe has the settings that suit it."""
    runs, titles = _records(models), " ".join(model.name for model in models)
    names = dict.fromkeys(name for run in runs for name in run.fields if name not in NOT_SETTINGS)
    # A field that only some recipes have is part of their model.
    shared = [name for name in names if all(name in run.fields for run in runs)]
    # So is one that only some models have a use for, unless these differ in it.
    using = {name: [run for run in runs if name not in unused_in(run)] for name in shared}
    varied = [
        name
        for name in shared
        if f"{name}=" not in titles and len({repr(setting(run, name)) for run in using[name]}) > 1
    ]
    if not varied:
        return []
    varied.sort(key=lambda name: name != "precision")  # first, since no recipe is better for it
    more = f" and {numbers.counted(len(varied) - NAMED, 'more setting')}" if len(varied) > NAMED else ""
    return [f"Beside the model they differ in {', '.join(varied[:NAMED])}{more} (see Recipes)."]


def improving(models: Sequence[SeedGroup]) -> list[str]:
    """Models that were at their best on valid when their budget ended, and whether that says anything."""
    at_best = [model for model in models if any(entry.record.was_improving for entry in model.entries)]
    falling = [model for model in at_best if all(entry.record.rate_falls for entry in model.entries)]
    still = [model for model in at_best if model not in falling]
    found = []
    if still:
        found.append(f"Still improving on valid when the budget ended: {_all_or_named(still, len(models))}.")
    if falling:
        who = _all_or_named(falling, len(models))
        found.append(
            f"At their best on valid in the last epoch: {who}. The learning rate falls to 0 until then, so this says "
            "nothing about longer training."
        )
    return found


def _all_or_named(improving: Sequence[SeedGroup], count: int) -> str:
    """The models, each with its seeds where not all of them were improving; or that it is all of them."""
    told = []
    for model in improving:
        seeds, were = len(model.entries), sum(entry.record.was_improving for entry in model.entries)
        told.append(model.name if were == seeds else f"{model.name} (in {were} of {seeds} seeds)")
    return "all" if told == [model.name for model in improving] and len(told) == count > 2 else ", ".join(told)
