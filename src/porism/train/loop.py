"""The one training loop: epochs, early stopping, checkpoints, resume."""

import math
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from porism.errors import Interrupted, RunError, TrainingError
from porism.train import checkpoint, optimizer
from porism.train.interrupt import Interrupt
from porism.train.run import Run
from porism.train.step import make_step
from porism.train.task import Carry, Step, Task
from porism.train.watch import Silence, Watcher


@dataclass
class Position:
    """Where a training stands, tensors aside. Saved with every checkpoint."""

    epoch: int = 1
    step: int = 0
    """Batches of this epoch that are done."""
    loss: float = 0.0
    """Sum over this epoch so far, each batch weighed by its units."""
    units: int = 0
    best: float | None = None
    best_epoch: int = 0
    epoch_seconds: float = 0.0
    """Time spent in training steps, in this epoch and over all of them."""
    seconds: float = 0.0
    all_units: int = 0
    finished: str = ""
    """Why training is over, empty while it is not."""


class Training:
    """One training on its way: the model, its optimizer and its position.

    >>> training = Training(task, run, device)
    >>> training.resume()            # where there is something to resume
    >>> training.fit(watcher)
    """

    def __init__(self, task: Task, run: Run, device: torch.device) -> None:
        self.task, self.run, self.device = task, run, device
        torch.set_num_threads(run.facts.threads)
        torch.manual_seed(run.facts.seed)
        self.model = task.build().to(device)
        self.optimizer: Optimizer = optimizer.make(task.recipe, self.model.parameters(), device)
        self.position = Position()
        self.carry: Carry | None = None

    def resume(self, watcher: Watcher | None = None) -> None:
        """Go back to the newest good checkpoint, or to the start where there is none yet."""
        if not checkpoint.exists(self.run.path / "last"):
            return
        saved, warning = checkpoint.load(self.run.path / "last")
        if warning and watcher:
            watcher.note(warning)
        checkpoint.load_model(self.model, saved)
        optimizer.load_state(self.optimizer, saved.parts["optimizer"])
        self.position = Position(**saved.state["position"])
        self.carry = {name: x.to(self.device) for name, x in saved.parts["carry"].items()} or None
        torch.set_rng_state(saved.parts["random"]["cpu"])
        if self.device.type == "cuda" and "cuda" in saved.parts["random"]:
            torch.cuda.set_rng_state(saved.parts["random"]["cuda"], self.device)
        if not self.position.finished:
            self.run.append("resume", epoch=self.position.epoch, step=self.position.step)

    def fit(self, watcher: Watcher | None = None, checkpoint_every: float = 60.0) -> None:
        """Train to the end, then put the best parameters into the model.

        checkpoint_every: seconds between checkpoints within an epoch; there is one after each epoch anyway.
        """
        watcher = watcher or Silence()
        recipe, at = self.task.recipe, self.position
        steps = len(self.task.batches(at.epoch, self.run.facts.seed))
        step = make_step(self.task, self.model, self.optimizer, self.device, self.run.facts.precision)
        title = f"{self.task.name} {recipe.name}"
        watcher.begin(title, recipe.epochs, steps, (at.epoch - 1) * steps + at.step, self.task.unit)
        with Interrupt() as interrupt:
            while not at.finished:
                self._train_epoch(step, interrupt, watcher, checkpoint_every)
                self._close_epoch(watcher)
        best, warning = checkpoint.load(self.run.path / "best")
        if warning:
            watcher.note(warning)
        if best.state["epoch"] != at.best_epoch:
            raise RunError(
                f"{best.folder} is of epoch {best.state['epoch']}, but epoch {at.best_epoch} was the best. "
                f"Repeat the run with: {shlex.join(self.run.facts.command())}"
            )
        checkpoint.load_model(self.model, best)

    def _train_epoch(self, step: Step, interrupt: Interrupt, watcher: Watcher, checkpoint_every: float) -> None:
        at, recipe = self.position, self.task.recipe
        batches = self.task.batches(at.epoch, self.run.facts.seed)
        carry = self.carry or {name: x.to(self.device) for name, x in self.task.start(self.model).items()}
        # Reading a number from a GPU waits for it, so there the loss is summed on the device and read now and then.
        look_every = 1 if self.device.type == "cpu" else 50
        loss_sum = torch.tensor(at.loss, dtype=torch.float64, device=self.device)
        self.model.train()
        since = saved = time.monotonic()
        while at.step < len(batches):
            batch = tuple(x.to(self.device, non_blocking=True) for x in batches[at.step])
            done = (at.epoch - 1) * len(batches) + at.step
            optimizer.set_rate(self.optimizer, optimizer.rate_at(recipe, done, recipe.epochs * len(batches)))
            loss, carry = step(batch, carry)
            count = self.task.count(batch)
            loss_sum += loss.double() * count
            at.step += 1
            at.units += count
            at.all_units += count
            watcher.step(count)
            if at.step % look_every == 0 or at.step == len(batches):
                at.loss = self._checked(loss_sum)
            now = time.monotonic()
            if interrupt.asked or now - saved > checkpoint_every:
                at.loss = self._checked(loss_sum)
                self._spend(since)
                self._save_last(carry)
                since = saved = time.monotonic()
            if interrupt.asked:
                self.run.append("interrupt", epoch=at.epoch, step=at.step)
                raise Interrupted(
                    f"stopped, and saved. Go on with: porism train --resume {shlex.quote(str(self.run.path))}"
                )
        self._spend(since)

    def _spend(self, since: float) -> None:
        spent = time.monotonic() - since
        self.position.epoch_seconds += spent
        self.position.seconds += spent

    def _close_epoch(self, watcher: Watcher) -> None:
        at, recipe = self.position, self.task.recipe
        valid = evaluate(self.task, self.model, "valid")
        value = valid[self.task.metric]
        if not math.isfinite(value):
            raise TrainingError(self._no_number(f"{self.task.metric} on valid is {value}"))
        better = at.best is None or (value < at.best if self.task.lower_is_better else value > at.best)
        kept = better or recipe.select == "final"
        if kept:
            at.best, at.best_epoch = value, at.epoch
            tensors, aliases = checkpoint.model_tensors(self.model)
            state = {"epoch": at.epoch, "valid": valid, "aliases": aliases}
            checkpoint.save(self.run.path / "best", {"model": tensors}, state, {"assets": self.task.assets()})
        event: dict[str, Any] = {
            "epoch": at.epoch,
            "step": at.step,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            "seconds": round(at.epoch_seconds, 3),
            "train": self.task.training_metrics(at.loss / at.units),
            "valid": valid,
            "best": kept,
        }
        if at.epoch - at.best_epoch > recipe.patience:
            at.finished = f"no better for {at.epoch - at.best_epoch} epochs"
        elif at.epoch == recipe.epochs:
            at.finished = "all epochs done"
        else:
            at.epoch, at.step, at.loss, at.units, at.epoch_seconds = at.epoch + 1, 0, 0.0, 0, 0.0
        self.carry = None
        # The events go first: a kill before the checkpoint repeats the epoch, and the reader drops what is repeated.
        self.run.append("epoch", **event)
        if at.finished:
            self.run.append("finish", epochs=at.epoch, reason=at.finished)
        self._save_last({})
        watcher.epoch(event)

    def _save_last(self, carry: Carry) -> None:
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        tensors, aliases = checkpoint.model_tensors(self.model)
        parts = {
            "model": tensors,
            "optimizer": optimizer.state_tensors(self.optimizer),
            "carry": carry,
            "random": random,
        }
        checkpoint.save(self.run.path / "last", parts, {"position": asdict(self.position), "aliases": aliases})

    def _checked(self, loss_sum: Tensor) -> float:
        total = float(loss_sum)
        if not math.isfinite(total):
            raise TrainingError(self._no_number(f"the loss is {total}"))
        return total

    def _no_number(self, what: str) -> str:
        at, rate = self.position, self.task.recipe.learning_rate
        return (
            f"{what} in epoch {at.epoch}, step {at.step}, at learning_rate {rate:g}: training cannot go on. "
            f"What was saved before is intact in {self.run.path}; "
            f"try --set learning_rate={rate / 10:g} or --set clip=1."
        )


def evaluate(task: Task, model: nn.Module, split: str) -> dict[str, float]:
    """The metrics on one split; nothing is updated."""
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
