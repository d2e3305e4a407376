"""How far a training has come: what is saved of it, and how it is taken up again."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial

import msgspec
import torch
from torch import Tensor
from torch.optim import Optimizer

from porism.errors import RunError, advise, one_line
from porism.files import without_nan
from porism.runs import checkpoint
from porism.runs.checkpoint import Checkpoint, Files, Snapshot, files_of, snapshot
from porism.runs.events import EventRecord
from porism.runs.recipe import Count, NotNegative, Recipe, Whole
from porism.runs.results import METRICS
from porism.runs.run import BEST, LAST, RunFolder
from porism.training import optimizer
from porism.training.progress import Progress
from porism.training.task import Carry, Task


@dataclass
class Position:
    """Where a training stands, tensors aside. Saved with every checkpoint."""

    epoch: Count = 1
    """Counted in validations: a recipe has `check_val_every_n_epoch` epochs between two. So is `best_epoch`."""
    step: Whole = 0
    """Batches since the last validation."""
    loss: float = 0.0
    """Sum over them, each batch weighed by its units."""
    units: Whole = 0
    best: float | None = None
    best_epoch: Whole = 0
    epoch_seconds: NotNegative = 0.0
    """Time spent in training steps, since the last validation and over all of them."""
    seconds: NotNegative = 0.0
    all_units: Whole = 0
    finished: str = ""
    """Why training is over, empty while it is not."""

    @property
    def units_per_second(self) -> float:
        """Units a second of training: the one that every log, event and table shows. Validations do not count."""
        return round(self.all_units / max(self.seconds, 1e-9), 1)


class TrainingState:
    """The model, its optimizer and its position, and the two checkpoints of them: `last` and `best`."""

    rate = 0.0
    """The learning rate of the step at hand."""
    shard = False
    """Whether processes that train together each hold a part of the model. It changes nothing but rounding."""

    def __init__(self, task: Task, run: RunFolder, device: torch.device) -> None:
        self.task, self.run, self.device = task, run, device
        self.start_anew()

    def start_anew(self) -> None:
        """Be at the first step of the first epoch."""
        torch.set_num_threads(self.run.facts.threads)
        torch.manual_seed(self.run.facts.seed)
        self.model = self.task.new_model().to(self.device)
        self.optimizer: Optimizer = optimizer.make(
            self.task.recipe, self.task.trained_parameters(self.model), self.device
        )
        self.position = Position()
        self.carry: Carry | None = None

    def take_up(self, progress: Progress) -> None:
        """Go back to the newest good checkpoint, or to the start where there is none yet.

        What is on the disk is looked at before anything is written: the results, the events, and every folder that
        will be replaced.
        """
        self.start_anew()
        finished = self.run.metrics() is not None
        events = self.run.events.read()
        last = self.run.path / LAST
        checkpoint.refuse_foreign(last, self._files_of_last())
        checkpoint.refuse_foreign(self.run.path / BEST, self._files_of_best())
        if checkpoint.exists(last):
            saved, warning = self._load_last()
            events.check_holds(saved.state.get("events"), saved.folder)
            if finished and not self.position.finished:
                raise RunError(f"{warning} {self.has_finished}")
            checkpoint.promote(saved, last)
            if not self.run.events.path.exists():
                # Somebody took them away, so this checkpoint must no longer vouch for their lines.
                self.last(self.carry or {}).save()
        elif finished:
            raise RunError(f"{last} is not there. {self.has_finished}")
        else:
            warning = f"{last} is not there: training starts from its first epoch again." if _epochs(events) else None
        if warning:
            progress.note(warning)
        if not finished:
            # It may have been stopped just after it was lengthened.
            go_on(self.position, self.task.recipe)
        if not self.position.finished:
            at = self.position
            self.run.append(
                "resume", **self.task.recipe.numbered(epoch=at.epoch), step=at.step, recipe=self.run.recipe_sha256
            )

    @property
    def has_finished(self) -> str:
        """Why a run that has its results is not trained further."""
        return f"{self.run.path} has finished, and {METRICS} has its results: no epoch is left to train."

    def load_best(self) -> tuple[Checkpoint, str | None]:
        """The checkpoint of the best epoch, and a sentence for the user when it is not under its own name."""
        check = partial(check_best, epoch=self.position.best_epoch, parameters=self._parameters())
        return checkpoint.load(self.run.path / BEST, check)

    def last(self, carry: Carry) -> Snapshot:
        """All that the next step depends on. carry: what it is handed by the one before."""
        tensors, aliases = checkpoint.model_tensors(self.model)
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        memory = optimizer.state_tensors(self.optimizer)
        parts = {"model": tensors, "optimizer": memory, "carry": carry, "random": random}
        state = {
            "position": asdict(self.position),
            "aliases": aliases,
            "recipe": self.run.recipe_sha256,
            "events": self.run.events.sha256,
        }
        return snapshot(self.run.path / LAST, parts, state)

    def best(self, valid: dict[str, float]) -> Snapshot:
        """The model as it is now, as that of the best epoch. valid: its metrics."""
        tensors, aliases = checkpoint.model_tensors(self.model)
        state = {
            "epoch": self.position.best_epoch,
            "valid": without_nan(valid),
            "aliases": aliases,
            "recipe": self.run.recipe_sha256,
        }
        return snapshot(self.run.path / BEST, {"model": tensors}, state, {"assets": self.task.assets()})

    def bytes_to_save(self) -> int:
        """Of the tensors of both checkpoints, but for what a step hands to the next."""
        model, memory = checkpoint.model_tensors(self.model)[0], optimizer.state_tensors(self.optimizer)
        return sum(x.nbytes for x in (*model.values(), *model.values(), *memory.values()))

    def first_not_finite(self, carry: Carry) -> str | None:
        """What of all that `last` saves no training can go on from."""
        tensors: dict[str, Tensor] = {
            **checkpoint.model_tensors(self.model)[0],
            **{f"{name} of the optimizer": x for name, x in optimizer.state_tensors(self.optimizer).items()},
            **{f"the carried {name}": x for name, x in carry.items()},
        }
        return checkpoint.first_not_finite(tensors, self._parameters())

    def _load_last(self) -> tuple[Checkpoint, str | None]:
        try:
            saved, warning = checkpoint.load(self.run.path / LAST, partial(check_last, parameters=self._parameters()))
        except RunError as error:
            raise RunError(
                f"{error} There is no good one before it; start a new run.",
                advise("This was: {}", self.run.facts.repeating()),
            ) from error
        checkpoint.load_model(self.model, saved)
        try:
            memory = self.task.optimizer_state(saved.parts["optimizer"], saved.parts["model"])
            optimizer.load_state(self.optimizer, memory)
            torch.set_rng_state(saved.parts["random"]["cpu"])
            if self.device.type == "cuda" and "cuda" in saved.parts["random"]:
                torch.cuda.set_rng_state(saved.parts["random"]["cuda"], self.device)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(
                f"{saved.folder} cannot be resumed from: its optimizer or its random state does not fit the recipe "
                f"({one_line(error)})."
            ) from error
        self.position = msgspec.convert(saved.state["position"], Position)
        self.carry = {name: x.to(self.device) for name, x in saved.parts["carry"].items()} or None
        return saved, warning

    def _parameters(self) -> Collection[str]:
        return dict(self.model.named_parameters())

    def _files_of_last(self) -> Files:
        tensors = checkpoint.model_tensors(self.model)[0]
        return files_of({"model": tensors, "optimizer": {}, "carry": {}, "random": {}}, {})

    def _files_of_best(self) -> Files:
        return files_of({"model": checkpoint.model_tensors(self.model)[0]}, {"assets": {}})


def check_last(saved: Checkpoint, parameters: Collection[str]) -> None:
    """Refuse a checkpoint that no training can go on from."""
    try:
        msgspec.convert(saved.state["position"], Position)
        tensors = {**saved.parts["model"], **saved.parts["optimizer"], **saved.parts["carry"]}
        saved.parts["random"]["cpu"]
    except (KeyError, msgspec.ValidationError) as error:
        raise RunError(f"{saved.folder} is not a checkpoint to resume from: {error}.") from None
    _refuse_not_finite(saved, tensors, parameters)


def check_best(saved: Checkpoint, epoch: int | None = None, parameters: Collection[str] = ()) -> None:
    """Refuse a checkpoint that is not of a best epoch, or not of the one that is requested."""
    try:
        found = msgspec.convert(saved.state["epoch"], int)
        tensors, _ = saved.parts["model"], saved.documents["assets"]
    except (KeyError, msgspec.ValidationError) as error:
        raise RunError(f"{saved.folder} is not a checkpoint of a best epoch: {error}.") from None
    if epoch is not None and found != epoch:
        raise RunError(f"{saved.folder} is of epoch {found}, but epoch {epoch} was the best.")
    _refuse_not_finite(saved, tensors, parameters)


def _refuse_not_finite(saved: Checkpoint, tensors: dict[str, Tensor], parameters: Collection[str]) -> None:
    if name := checkpoint.first_not_finite(tensors, parameters):
        raise RunError(f"{saved.folder} cannot be used: {name} is not finite.")


def _epochs(events: EventRecord) -> bool:
    """Whether an epoch was reported."""
    return any(isinstance(line.event, dict) and line.event.get("event") == "epoch" for line in events.lines)


def go_on(at: "Position", recipe: Recipe) -> bool:
    """Take a training that had finished to its next epoch, where its recipe has become longer since. Whether it has."""
    if not at.finished or at.epoch >= recipe.validations or at.epoch - at.best_epoch >= recipe.patience:
        return False
    at.epoch, at.step, at.loss, at.units, at.epoch_seconds, at.finished = at.epoch + 1, 0, 0.0, 0, 0.0, ""
    return True
