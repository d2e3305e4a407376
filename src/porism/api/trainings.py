"""One training of a comparison: what receives its progress, and what came of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from porism.api.engine import finish, going_on
from porism.api.train import Request
from porism.errors import DivergedError
from porism.runs.record import read_run
from porism.runs.run import RECIPE, RunFolder
from porism.training.loop import Training
from porism.training.progress import Progress


@dataclass(frozen=True)
class Listeners:
    """What receives the progress of trainings: `notes` before one has started, then what `started` gives."""

    notes: Progress
    started: Callable[[Training], Progress]
    beside: Callable[[str], Progress]
    """What receives that of a training that runs beside others, by its name."""


class Outcome(NamedTuple):
    """What came of a training: what metrics.json says, or why its numbers were no longer finite."""

    path: Path
    request: Request
    result: dict[str, Any] | None = None
    diverged: DivergedError | None = None

    def to_json(self) -> dict[str, Any]:
        """For programs: the result, or which training has none and why."""
        if self.result is not None:
            return self.result
        request = self.request
        facts = {"task": request.kind.name, "recipe": request.recipe.name, "run": str(self.path), "seed": request.seed}
        return {**facts, "diverged": str(self.diverged)}


def train_one(
    request: Request, folder: Path, listeners: Listeners, own_page: bool = True, checkpoint_every: float = 60.0
) -> Outcome:
    """Train a request into a folder, from where the run that is there stopped; what is done is kept."""
    if (done := kept(request, folder)) is not None:
        return done
    try:
        with _same_threads_after():
            result = _trained(request, folder, listeners, own_page, checkpoint_every)
        return Outcome(folder, request, result)
    except DivergedError as error:
        return Outcome(folder, request, diverged=error)


def kept(request: Request, folder: Path) -> Outcome | None:
    """What came of a training that is done already; None where it is not."""
    if not (folder / RECIPE).is_file():
        return None
    if (lost := read_run(folder).diverged) is not None:
        return Outcome(folder, request, diverged=DivergedError(lost))
    done = RunFolder.open(folder).metrics()
    return None if done is None else Outcome(folder, request, done)


def _trained(
    request: Request, folder: Path, listeners: Listeners, own_page: bool, checkpoint_every: float
) -> dict[str, Any]:
    if not (folder / RECIPE).is_file():
        training = request.begin(folder)
        return finish(training, listeners.started(training), checkpoint_every, report=own_page)
    run = RunFolder.open(folder)
    with going_on(run, listeners.notes, user_objects=request.user_objects) as training:
        return finish(training, listeners.started(training), checkpoint_every, report=own_page)


@contextmanager
def _same_threads_after() -> Iterator[None]:
    """Leave torch's threads as they were: a training sets its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
