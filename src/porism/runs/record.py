"""From a run's folder to a record of it.

A run is `recipe.toml`, `events.jsonl` (append only) and, once it has finished, `metrics.json`, with `exhibits.json` and
`outcomes.json` where there is more to show.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from porism.errors import RunError
from porism.files import read_bytes
from porism.runs.checkpoint_state import states
from porism.runs.events import EVENTS, read_events
from porism.runs.example_scores import ExampleScores
from porism.runs.exhibits import AnyExhibit
from porism.runs.old_fields import EVERY, convert_epochs
from porism.runs.results import EXAMPLES, EXHIBITS, METRICS, OUTCOMES, Results, read_results
from porism.runs.run import LAST, RunFacts, Written, decode_recipe, refuse_other_recipe
from porism.runs.tuning import TUNING, Tuning

Scores = dict[str, float | None]
"""A metric's name to its value; None or no finite number where training went astray."""
T = TypeVar("T")


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data: the batches in it, and the seconds they took."""

    epoch: int
    step: int = 0
    learning_rate: float | None = None
    seconds: float = 0.0
    train: Scores = field(default_factory=dict)
    valid: Scores = field(default_factory=dict)
    best: bool = False


@dataclass(frozen=True)
class EpochProgress:
    """How far an epoch has come: steps of so many, the mean training loss so far, units a second, seconds left of the
    whole training at most."""

    epoch: int
    step: int = 0
    steps: int = 0
    loss: float | None = None
    rate: float | None = None
    unit: str = ""
    seconds_left: float | None = None


@dataclass(frozen=True)
class OtherEvent:
    """What the other events say."""

    time: float | None = None
    command: str | None = None
    text: str = ""
    reason: str | None = None
    trainings: int = 1


@dataclass(frozen=True)
class Term:
    """One named part of a cost: its formula in the alphabet, and the number it comes to."""

    formula: str = ""
    value: float | int | None = None


@dataclass(frozen=True)
class CostRecord(Term):
    """A cost in all, the sizes that were put into its formula, and the terms it is the sum of."""

    at: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    """The sizes at which the formula gives the number, times the units; none in runs of 0.1."""
    units: int = 1
    """How many units these sizes are of: the number is that of one."""
    terms: dict[str, Term] = field(default_factory=dict)

    @property
    def remark(self) -> str:
        """Which sizes the formula is for, to stand after it."""
        return f", at {self.at}" if self.at else ""


@dataclass(frozen=True)
class PredictionRecord:
    """What the trained model answered to a prompt."""

    prompt: str
    output: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metrics:
    """What `metrics.json` says. `rate` counts `unit`s a second: it stands there as `tokens_per_second` or the like."""

    metric: str
    lower_is_better: bool
    metrics: dict[str, Scores]
    parameters: int | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    seconds: float | None = None
    unit: str | None = None
    rate: float | None = None
    published: dict[str, Scores] = field(default_factory=dict)
    baselines: dict[str, dict[str, Scores]] = field(default_factory=dict)
    """A simple model's name to its scores by split."""
    baseline_notes: tuple[str, ...] = ()
    """Which of them are left out and why, and which saw a part of the data."""
    limit: dict[str, Scores] = field(default_factory=dict)
    cost: dict[str, CostRecord] = field(default_factory=dict)
    cost_notes: tuple[str, ...] = ()
    """What follows from the formulas: from which length on a mechanism costs less than another."""
    evaluation: str = ""
    """The sha256 of what was scored: runs that share it can be compared. Empty in runs of 0.1."""
    examples: dict[str, int] = field(default_factory=dict)
    """How many there are in each split, where they can be separated."""
    copies: dict[str, int] = field(default_factory=dict)
    """How many examples of a split are in train too."""
    facts: dict[str, int | float | str] = field(default_factory=dict)
    samples: tuple[PredictionRecord, ...] = ()
    hardware: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    command: str | None = None

    @property
    def flops(self) -> float | None:
        """Of the forward pass, for one unit."""
        return self.cost["flops"].value if "flops" in self.cost else None

    @property
    def training_flops(self) -> float | None:
        """Of the passes forward and backward, for one unit."""
        passes = [self.cost[kind].value for kind in ("flops", "backward") if kind in self.cost]
        known = [value for value in passes if value is not None]
        return sum(known) if len(known) == 2 else None

    @property
    def seconds_per_unit(self) -> float | None:
        """What one unit took in training: both passes, the update, and all around them."""
        return 1 / self.rate if self.rate else None

    @property
    def flops_per_second(self) -> float | None:
        """What the machine made of it."""
        return self.training_flops * self.rate if self.training_flops and self.rate else None


@dataclass(frozen=True)
class RunRecord:
    """All that is known of one run. `metrics` is None as long as it has not finished."""

    path: Path
    facts: RunFacts
    fields: dict[str, Any]
    """Of the recipe, in this version's words."""
    epochs: tuple[Epoch, ...] = ()
    started: float | None = None
    command: str | None = None
    resumes: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    reason: str | None = None
    metrics: Metrics | None = None
    exhibits: tuple[AnyExhibit, ...] = ()
    outcomes: dict[str, str] = field(default_factory=dict)
    """A split to a digit an example: 1 where the model was right."""
    examples: dict[str, ExampleScores] = field(default_factory=dict)
    """A split to what each of its examples adds to the metric."""
    tuning: Tuning | None = None
    """What was tried on valid before the training."""
    diverged: str | None = None
    """Why training could not go on: its numbers were no longer finite."""
    progress: EpochProgress | None = None
    """Within the epoch that is trained now; None between epochs."""
    at_a_time: int = 1
    """How many trainings shared the machine while its times were measured, at most."""

    @property
    def finished(self) -> bool:
        return self.metrics is not None

    @property
    def epoch(self) -> int:
        """The epochs that are done."""
        return self.epochs[-1].epoch if self.epochs else 0

    @property
    def best(self) -> Epoch | None:
        """The epoch whose checkpoint counts."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.best), None)

    @property
    def was_improving(self) -> bool:
        """Whether it was at its best on valid when its budget ended. A single look at valid shows nothing."""
        found = self.metrics
        if found is None or not found.epochs or len(self.epochs) < 2:
            return False
        if self.fields.get("restore_best_weights", True):
            return found.best_epoch == found.epochs
        # The last epoch counts, whichever was the best.
        known = [value for epoch in self.epochs if (value := finite(epoch.valid.get(found.metric))) is not None]
        *earlier, last = known or [math.nan]
        return bool(earlier) and (last < min(earlier) if found.lower_is_better else last > max(earlier))

    @property
    def rate_falls(self) -> bool:
        """Whether its learning rate falls to 0 until its budget ends: nearly every run is at its best there."""
        return bool(self.fields.get("lr_scheduler", "constant") != "constant")

    def seconds_until(self, last: Epoch) -> float:
        """The training time from the start to the end of an epoch."""
        return sum(epoch.seconds for epoch in self.epochs if epoch.epoch <= last.epoch)

    def score(self, split: str, metric: str) -> float | None:
        """The measured number, where there is a finite one. An unfinished run has its best epoch's on `valid`."""
        if self.metrics is not None:
            return finite(self.metrics.metrics.get(split, {}).get(metric))
        return finite(self.best.valid.get(metric)) if self.best and split == "valid" else None


def finite(value: float | None) -> float | None:
    """The value, or None for what is no number one can plot or rank."""
    return value if value is not None and math.isfinite(value) else None


def read_run(path: Path) -> RunRecord:
    """The record of the run in a folder.

    >>> read_run(Path("runs/table-02")).facts.seed
    1
    """
    path = Path(path)
    recipe_file = path / "recipe.toml"
    if not recipe_file.is_file():
        found = "has no recipe.toml" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
        raise RunError(f"{path} {found}; expected a run's folder. Name one that a training wrote.")
    written = decode_recipe(read_bytes(recipe_file), recipe_file)
    refuse_other_recipe(path, written)
    now = written.converted()
    # The checkpoint and the results before what they vouch for: a run that goes on meanwhile writes in the other order.
    saved = next(states(path / LAST), None)
    results = read_results(path, written.sealed)
    events = read_events(path / EVENTS, written.sealed)
    if saved is not None:
        events.check_holds(saved[1].get("events"), saved[0])
    if results is not None:
        events.check_holds(results.sha256.get(EVENTS), path / METRICS)
    # Before a run of 0.1 has results, no checksum covers the files beside them.
    beside = results or (None if written.sealed else Results(path, {}, {}))
    record = RunRecord(
        path=path,
        facts=written.facts,
        fields=now.fields,
        metrics=_metrics(results, written, path / METRICS),
        exhibits=_attached(beside, EXHIBITS, tuple[AnyExhibit, ...], ()),
        outcomes=_attached(beside, OUTCOMES, dict[str, str], {}),
        examples=_attached(beside, EXAMPLES, dict[str, ExampleScores], {}),
        tuning=_tuning(beside, path / TUNING),
    )
    for line in events.lines:
        place = f"{events.path}, line {line.number}"
        event = convert_epochs(_shaped(line.event, dict[str, Any], place), now.fields.get(EVERY, 1))
        record = _after(record, event, place)
    if now.facts != written.facts and record.command is not None:
        record = replace(record, command=now.facts.repeat())
    return record


def _after(record: RunRecord, event: Mapping[str, Any], place: str) -> RunRecord:
    """The record as it stands after one more event. The last word on an epoch counts."""
    match event.get("event"):
        case "epoch":
            new = _shaped(event, Epoch, place)
            epochs = (*(done for done in record.epochs if done.epoch < new.epoch), new)
            return replace(record, epochs=epochs, progress=None)
        case "progress":
            return replace(record, progress=_shaped(event, EpochProgress, place))
        case "resume":
            back = _shaped(event, Epoch, place)
            # What came after the checkpoint is gone over again: later epochs, and the one it was taken in.
            kept = (done for done in record.epochs if (done.epoch, done.step) <= (back.epoch, back.step))
            return replace(
                record,
                epochs=tuple(kept),
                resumes=record.resumes + 1,
                interrupted=False,
                reason=None,
                diverged=None,
                progress=None,
            )
        case "start":
            start = _shaped(event, OtherEvent, place)
            return replace(record, started=start.time, command=start.command)
        case "lengthen":
            return replace(record, command=_shaped(event, OtherEvent, place).command)
        case "interrupt":
            return replace(record, interrupted=True)
        case "best_lost":
            lost = _shaped(event, Epoch, place)
            epochs = tuple(replace(done, best=done.epoch == lost.epoch) for done in record.epochs)
            return replace(record, epochs=epochs, notes=(*record.notes, _shaped(event, OtherEvent, place).text))
        case "note":
            return replace(record, notes=(*record.notes, _shaped(event, OtherEvent, place).text))
        case "diverge":
            return replace(record, diverged=_shaped(event, OtherEvent, place).text)
        case "side_by_side":
            together = _shaped(event, OtherEvent, place).trainings
            return replace(record, at_a_time=max(record.at_a_time, together))
        case "finish":
            return replace(record, reason=_shaped(event, OtherEvent, place).reason)
        case _:
            return record


def _metrics(results: Results | None, written: Written, file: Path) -> Metrics | None:
    if results is None:
        return None
    raw = written.convert_results(results.metrics)
    for key in raw:
        if key.endswith("_per_second"):
            raw = {**raw, "unit": key.removesuffix("_per_second"), "rate": raw[key]}
            break
    return _shaped(raw, Metrics, f"{file}")


def _tuning(results: Results | None, file: Path) -> Tuning | None:
    found = _attached(results, TUNING, dict[str, Any], {})
    return _shaped(found, Tuning, f"{file}") if found else None


def _attached(results: Results | None, name: str, kind: type[T], absent: T) -> T:
    """What a file holds that was written with the results, or what it means that there is none."""
    content = results.attached(name) if results is not None else None
    if results is None or content is None:
        return absent
    file = results.folder / name
    try:
        return _shaped(json.loads(content.decode()), kind, f"{file}")
    except json.JSONDecodeError as error:
        raise _broken(f"{file}, line {error.lineno}", f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _broken(f"{file}", f"not JSON: {error}") from None


def _shaped(raw: object, kind: type[T], place: str) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _broken(place, f"{error}") from None


def _broken(place: str, why: str) -> RunError:
    return RunError(f"{place}: {why}. Mend it, or leave this run out of the report.")
