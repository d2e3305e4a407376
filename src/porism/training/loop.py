"""The one training loop: epochs, early stopping, checkpoints within an epoch."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from porism.errors import DivergedError, Interrupted, RecipeError, RunError, advise, fields, resuming
from porism.runs import checkpoint
from porism.runs.checkpoint import Checkpoint, Snapshot
from porism.runs.recipe import Recipe
from porism.runs.record import read_run
from porism.runs.run import BEST, LAST, RunFolder
from porism.training import optimizer
from porism.training.checkpoint_writer import CheckpointWriter
from porism.training.distributed.leader import LeadingStep
from porism.training.distributed.processes import current
from porism.training.interrupt import Interrupt
from porism.training.position import TrainingState
from porism.training.progress import NoProgress, Progress
from porism.training.progress_events import ProgressEvents
from porism.training.step import EagerStep, make_step
from porism.training.task import Carry, Step, Task

SMALL = 2**20
"""Bytes of a checkpoint that is saved after every epoch."""
SAVING_SHARE = 0.1
"""Of the time that writing larger ones may take, beside the training: where epochs are shorter than that allows, not
each of them is saved. A kill costs what came after the last one that was, and a resume repeats it, bit for bit."""


class Training(TrainingState):
    """One training on its way.

    >>> training = Training(task, run, device)
    >>> training.resume()            # where there is something to resume
    >>> training.fit(progress)
    """

    _values: list[float] | None = None
    """Of all epochs on valid, where the last one counts and the best is only reported."""
    _best_valid: dict[str, float | None] | None = None
    """The metrics of the best epoch on valid, once they are needed between equals."""
    _unsaved_best: Snapshot | None = None
    """Of an epoch after which nothing was saved."""
    _saved_at = 0.0

    def __init__(self, task: Task, run: RunFolder, device: torch.device) -> None:
        super().__init__(task, run, device)
        self._writer = CheckpointWriter(run.writing)

    def resume(self, progress: Progress | None = None) -> None:
        """Go back to the newest good checkpoint, or to the start where there is none yet.

        The best checkpoint so far is read now: where it is lost, that is reported before training goes on.
        """
        progress = progress or NoProgress()
        self.run.lock()
        self.take_up(progress)
        if self.position.best_epoch:
            self._take_best(progress)

    @contextmanager
    def only_writer(self, progress: Progress | None = None) -> Iterator[None]:
        """Be the one that writes into the run while this lasts."""
        known = self.run.locked
        with self.run.writing():
            if not known:
                # In the meantime another process may have trained it.
                self.resume(progress)
            try:
                yield
            finally:
                # Whichever way training ends: with its checkpoint on the disk, or with what kept it from there.
                self._writer.wait()

    def fit(self, progress: Progress | None = None, checkpoint_every: float = 60.0) -> None:
        """Train to the end, then put the best parameters into the model.

        checkpoint_every: seconds between checkpoints at most. There is one after each epoch, too, unless it is
        larger than SMALL and saving would take more than SAVING_SHARE of the time; and one at the end. They are written
        while training goes on, one at a time. This returns, or raises, when the last of them is on the disk.
        """
        progress = progress or NoProgress()
        with self.only_writer(progress):
            try:
                self._train(progress, checkpoint_every)
                self._writer.wait()
            except DivergedError as error:
                self._writer.wait()
                if self._unsaved_best is not None:
                    self._unsaved_best.save()
                # To a comparison that is an outcome, which --resume need not find again.
                at = self.task.recipe.numbered(epoch=self.position.epoch)
                self.run.append("diverge", **at, step=self.position.step, text=str(error))
                raise
            if (best := self._take_best(progress)) is not None:
                checkpoint.load_model(self.model, best)

    def _train(self, progress: Progress, checkpoint_every: float) -> None:
        recipe, at = self.task.recipe, self.position
        steps = len(self.task.batches(at.epoch, self.run.facts.seed))
        every = recipe.epochs_between_validations
        if recipe.max_seconds is not None and self.task.step(self.model) is not None:
            raise RecipeError(
                f"recipe {recipe.name}: max_seconds={recipe.max_seconds:g} cannot be: {self.task.name} trains it by a "
                "step of its own, whose learning rate falls over epochs.",
                advise("Use {}.", fields(max_seconds=None)),
            )
        step = self._make_step()
        # What a user's module does beside its gradient is not known. A GPU has steps to warm up in any case.
        if isinstance(step, EagerStep) and self.device.type == "cpu" and self.task.user_objects.model is None:
            self._warm_up(step)
        title = f"{self.task.name} {recipe.name}"
        progress.begin(title, recipe.epochs, steps // every, (at.epoch - 1) * steps + at.step, self.task.unit)
        if not recipe.restore_best_weights and not at.finished:
            progress.note("the last epoch counts, whichever is best on valid (restore_best_weights=false)")
        self._saved_at = time.monotonic()
        with Interrupt() as interrupt:
            while not at.finished:
                self._train_epoch(step, interrupt, progress, checkpoint_every)
                if isinstance(step, LeadingStep):
                    step.whole({})
                self._close_epoch(progress)

    def _make_step(self) -> Step:
        if (processes := current()).size > 1 and not self.position.finished:
            return LeadingStep(self, processes)
        return make_step(self.task, self.model, self.optimizer, self.device, self.run.facts.precision)

    def _warm_up(self, step: EagerStep) -> None:
        """A step without an update before the clock starts: compiling is no training."""
        at = self.position
        if at.finished:
            return
        batches = self.task.batches(at.epoch, self.run.facts.seed)
        self.model.train()
        # A run that was stopped after the last step of an epoch has only its end to come.
        step.warm_up(batches[min(at.step, len(batches) - 1)], dict(self.carry or self.task.start(self.model)))

    def _train_epoch(self, step: Step, interrupt: Interrupt, progress: Progress, checkpoint_every: float) -> None:
        at, recipe = self.position, self.task.recipe
        batches = self.task.batches(at.epoch, self.run.facts.seed)
        steps = len(batches) // recipe.epochs_between_validations  # of one epoch
        last = steps * (recipe.epochs_at(at.epoch) - recipe.epochs_at(at.epoch - 1))
        carry = self.carry or {name: x.to(self.device) for name, x in self.task.start(self.model).items()}
        # Reading a number from a GPU waits for it, so there the loss is summed on the device and read now and then.
        look_every = 1 if self.device.type == "cpu" else 50
        loss_sum = torch.tensor(at.loss, dtype=torch.float64, device=self.device)
        self.model.train()
        watched = ProgressEvents(
            self.run, self.task, at, last=last, done=(at.epoch - 1) * len(batches), total=recipe.epochs * steps
        )
        since = time.monotonic()
        while at.step < last:
            batch = tuple(x.to(self.device, non_blocking=True) for x in batches[at.step])
            done, total = (at.epoch - 1) * len(batches) + at.step, recipe.epochs * steps
            if recipe.max_seconds is not None:
                # The learning rate falls over the time where that ends before the epochs do.
                done = max(done, int(total * (at.seconds + time.monotonic() - since) / recipe.max_seconds))
            self.rate = optimizer.rate_at(recipe, done, total)
            optimizer.set_rate(self.optimizer, self.rate)
            loss, carry = step(batch, carry)
            count = self.task.count(batch)
            loss_sum += loss.double() * count
            at.step += 1
            at.units += count
            at.all_units += count
            progress.step(count)
            if at.step % look_every == 0 or at.step == last:
                at.loss = self._checked(loss_sum)
            now = time.monotonic()
            # Where a checkpoint could not be written, training ends here and not at the next one.
            self._writer.check()
            if at.step % look_every == 0 and at.step < last:
                watched.step(now)
            if interrupt.requested or now - self._saved_at > checkpoint_every:
                at.loss = self._checked(loss_sum)
                self._spend(since)
                self._save(step.whole(carry) if isinstance(step, LeadingStep) else carry)
                since = time.monotonic()
            if interrupt.requested:
                self._writer.wait()
                self.run.append("interrupt", **recipe.numbered(epoch=at.epoch), step=at.step)
                raise Interrupted("stopped, and saved.", advise("Go on with: {}", resuming(self.run.path)))
            if recipe.max_seconds is not None and at.seconds + now - since >= recipe.max_seconds:
                at.loss = self._checked(loss_sum)
                break
        self._spend(since)

    def _spend(self, since: float) -> None:
        spent = time.monotonic() - since
        self.position.epoch_seconds += spent
        self.position.seconds += spent

    def _close_epoch(self, progress: Progress) -> None:
        at, recipe = self.position, self.task.recipe
        self._refuse_not_finite({})
        valid = evaluate(self.task, self.model, "valid")
        value = self._metric(valid)
        better = self._is_better(value, valid)
        best, kept = self._is_best(value, better), better or not recipe.restore_best_weights
        if kept:
            at.best, at.best_epoch = value, at.epoch
            self._best_valid = dict(valid)
            self._unsaved_best = self.best(valid)
        event: dict[str, Any] = {
            **recipe.numbered(epoch=at.epoch),
            "step": at.step,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            "seconds": round(at.epoch_seconds, 3),
            "rate": at.units_per_second,
            "train": self.task.training_metrics(at.loss / at.units),
            "valid": valid,
            "best": kept,
        }
        if at.epoch - at.best_epoch >= recipe.patience:
            epochs = recipe.epochs_at(at.epoch) - recipe.epochs_at(at.best_epoch)
            at.finished = f"no better for {epochs} epoch{'s' * (epochs != 1)}"
        elif recipe.max_seconds is not None and at.seconds >= recipe.max_seconds:
            at.finished = f"{recipe.max_seconds:g} seconds are over"
        elif at.epoch == recipe.validations:
            at.finished = "all epochs done"
        else:
            at.epoch, at.step, at.loss, at.units, at.epoch_seconds = at.epoch + 1, 0, 0.0, 0, 0.0
        self.carry = None
        # The events go first: a kill before the checkpoint repeats the epoch, and the reader drops what is repeated.
        self.run.append("epoch", **event)
        if at.finished:
            self.run.append("finish", **recipe.numbered(epochs=at.epoch), reason=at.finished)
        if at.finished or self._is_time_to_save():
            self._save({})
        if progress.reads_checkpoints:
            self._writer.wait()
        progress.epoch({**event, "best": best})

    def _is_better(self, value: float, valid: dict[str, float]) -> bool:
        """Whether an epoch is better than the best before it: by the metric, between equals by the task's loss."""
        at, second = self.position, self.task.metric_between_equals
        if at.best is None or value != at.best:
            return at.best is None or (value < at.best if self.task.lower_is_better else value > at.best)
        if second is None:
            return False
        if self._best_valid is None:
            # This process has taken the training up.
            best = self.task.recipe.epochs_at(at.best_epoch)
            epochs = read_run(self.run.path).epochs
            self._best_valid = next((dict(epoch.valid) for epoch in epochs if epoch.epoch == best), {})
        before = self._best_valid.get(second)
        return before is not None and valid[second] < before

    def _is_best(self, value: float, better: bool) -> bool:
        """Whether the epoch that ends is the best so far. Where the last one counts, of all epochs."""
        recipe, metric = self.task.recipe, self.task.metric
        if recipe.restore_best_weights:
            return better
        if self._values is None:
            done = recipe.epochs_at(self.position.epoch)
            earlier = [epoch.valid.get(metric) for epoch in read_run(self.run.path).epochs if epoch.epoch < done]
            self._values = [number for number in earlier if number is not None]
        best = all(value < other if self.task.lower_is_better else value > other for other in self._values)
        self._values.append(value)
        return best

    def _take_best(self, progress: Progress) -> Checkpoint | None:
        """The checkpoint of the best epoch so far, put under its own name; None where it is lost, and was replaced."""
        try:
            saved, warning = self.load_best()
        except RunError as error:
            self._replace_best(error, progress)
            return None
        checkpoint.promote(saved, self.run.path / BEST)
        if warning:
            progress.note(warning)
        return saved

    def _replace_best(self, lost: RunError, progress: Progress) -> None:
        """Let the model at hand be the best if an epoch has just ended with it, else leave it to the epochs to come."""
        at = self.position
        if self.run.metrics() is not None:
            raise RunError(
                f"{lost} {self.has_finished}",
                advise("To have its model too, repeat it with: {}", self.run.facts.repeating()),
            ) from lost
        best_epoch, ended = at.best_epoch, at.epoch if at.finished else at.epoch - 1
        at.best, at.best_epoch, self._best_valid = None, 0, None
        if at.finished or at.step == 0:
            valid = evaluate(self.task, self.model, "valid")
            at.best, at.best_epoch = self._metric(valid), ended
            self._best_valid = dict(valid)
            self.best(valid).save()
        epochs_at = self.task.recipe.epochs_at
        newest = f"epoch {epochs_at(ended)}, the newest, counts as"
        now = newest if at.best_epoch else "the epochs from here on decide which is"
        text = f"{lost} The best epoch so far, {epochs_at(best_epoch)}, is lost; {now} the best."
        self.run.append("best_lost", **self.task.recipe.numbered(epoch=at.best_epoch), text=text)
        self.last(self.carry or {}).save()
        progress.note(text)

    def _is_time_to_save(self) -> bool:
        if self.bytes_to_save() <= SMALL:
            return True
        if self._writer.is_busy():
            return False
        return (time.monotonic() - self._saved_at) * SAVING_SHARE >= self._writer.seconds

    def _save(self, carry: Carry) -> None:
        """Begin to save both checkpoints; the best one first, so that `last` never speaks of one that is not there."""
        self._refuse_not_finite(carry)
        # Before another `last` is copied: of two at a time the memory was not asked for.
        self._writer.wait()
        best = [] if self._unsaved_best is None else [self._unsaved_best]
        self._writer.write([*best, self.last(carry)])
        self._unsaved_best = None
        self._saved_at = time.monotonic()

    def _refuse_not_finite(self, carry: Carry) -> None:
        """Keep what was saved before: a resume from numbers that are none would fail every time."""
        if name := self.first_not_finite(carry):
            self.task.check_finite()
            raise self._no_number(f"{name} is not finite")

    def _metric(self, valid: dict[str, float]) -> float:
        value = valid[self.task.metric]
        if not math.isfinite(value):
            self.task.check_finite()
            raise self._no_number(f"{self.task.metric} on valid is {value}")
        return value

    def _checked(self, loss_sum: Tensor) -> float:
        total = float(loss_sum)
        if not math.isfinite(total):
            self.task.check_finite()
            raise self._no_number(f"the loss is {total}")
        return total

    def _no_number(self, what: str) -> DivergedError:
        at, recipe = self.position, self.task.recipe
        self._writer.wait()
        saved = checkpoint.exists(self.run.path / LAST)
        kept = f"What was saved before is intact in {self.run.path}" if saved else "Nothing was saved yet"
        bounded = recipe.max_grad_norm is not None and math.isfinite(recipe.max_grad_norm)
        smaller = float(f"{self._smaller_rate():g}")
        instead = [fields(learning_rate=smaller), *([] if bounded else [fields(max_grad_norm=1)])]
        return DivergedError(
            f"{what} in {self._stretch()}, step {at.step}, at learning_rate {recipe.learning_rate:g}: training cannot "
            f"go on. {kept};",
            advise(f"start a new run with {' or '.join(['{}'] * len(instead))}.", *instead),
        )

    def _stretch(self) -> str:
        """The epochs since the last validation, in words."""
        at, recipe = self.position, self.task.recipe
        first, last = recipe.epochs_at(at.epoch - 1) + 1, recipe.epochs_at(at.epoch)
        return f"epoch {last}" if first == last else f"epochs {first} to {last}"

    def _smaller_rate(self) -> float:
        """A learning rate to try instead: that of the recipe as it comes, or a tenth where this is no larger."""
        rate = self.task.recipe.learning_rate
        usual = self.task.recipes.get(self.task.recipe.name, Recipe(name="", description="")).learning_rate
        return usual if rate > usual else rate / 10


def evaluate(task: Task, model: nn.Module, split: str) -> dict[str, float]:
    """The metrics on one split, without updates."""
    if split not in task.splits:
        raise RunError(f"{task.name} has no split {split!r}. Choose from {', '.join(task.splits)}.")
    with answering(model):
        return task.evaluate(model, split)


@contextmanager
def answering(model: nn.Module) -> Iterator[None]:
    """No dropout, no gradient, and afterwards the model learns on if it did."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
