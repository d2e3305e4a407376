"""A process that trains what it is sent, one training after the other. `porism.api.workers` starts it.

Jobs come over standard input, what happens goes out over standard output, both pickled. When the process that started
it is gone, it stops as on Ctrl-C: after the step, with a checkpoint.
"""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from porism.api.train import Request
from porism.api.trainings import Listeners, Outcome, train_one
from porism.errors import Interrupted, PorismError, RecipeError
from porism.training.baselines import baselines_shared_in
from porism.training.interrupt import ask_to_stop, signals_interrupt
from porism.training.loop import Training
from porism.training.own_code import why_not
from porism.training.progress import Progress, ProgressGroup, TensorBoardProgress

OFTEN = 0.2
"""Seconds between two words about steps."""
Send = Callable[..., None]


class Job(NamedTuple):
    """One training for a process of its own."""

    name: str
    request: Request
    folder: Path
    own_page: bool
    checkpoint_every: float
    tensorboard: bool
    at_a_time: int
    """How many trainings share the machine, which is kept with the times that are measured."""
    shared: Path
    """A folder for what is measured once for all of them."""


class SentProgress:
    """Sends what happens in a training to the process that started this one; of steps a few times a second."""

    reads_checkpoints = False

    def __init__(self, send: Send) -> None:
        self.send = send
        self.steps, self.units, self.since = 0, 0, time.monotonic()

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        self.send("begin", title, epochs, steps, done, unit)

    def step(self, units: int) -> None:
        self.steps, self.units = self.steps + 1, self.units + units
        if time.monotonic() - self.since > OFTEN:
            self._send_steps()

    def epoch(self, event: Mapping[str, Any]) -> None:
        self._send_steps()
        self.send("epoch", dict(event))

    def note(self, text: str) -> None:
        self.send("note", text)

    def close(self) -> None:
        self.send("close")

    def _send_steps(self) -> None:
        self.send("steps", self.steps, self.units)
        self.steps, self.units, self.since = 0, 0, time.monotonic()


def main() -> int:
    """Train until no more jobs come; the exit code."""
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a model or a library prints must not come between
    jobs: SimpleQueue[Job | Exception | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()

    def send(*message: Any) -> None:
        try:
            pickle.dump(message, events)
            events.flush()
        except BrokenPipeError:  # nobody listens any more
            ask_to_stop()

    try:
        with signals_interrupt():
            while (job := jobs.get()) is not None:
                if isinstance(job, Exception):
                    raise job
                try:
                    outcome = _train(job, send)
                    send("done", outcome.result, outcome.diverged)
                except PorismError as error:
                    send("failed", error)
                except SystemExit as leaving:  # code of the user's, in a pass of a model
                    send("failed", PorismError(f"it runs code of yours: {why_not(leaving)}"))
    except KeyboardInterrupt:
        return Interrupted.exit_code
    return 0


def _receive(stream: IO[bytes], jobs: "SimpleQueue[Job | Exception | None]") -> None:
    """Hand jobs on until the other end is closed, which asks the training on its way to stop."""
    try:
        while True:
            jobs.put(pickle.load(stream))
    except EOFError:
        ask_to_stop()
        jobs.put(None)
    except Exception as error:
        jobs.put(RecipeError(f"what is to be trained cannot be read: {error}"))


def _train(job: Job, send: Send) -> Outcome:
    progress = SentProgress(send)

    def started(training: Training) -> Progress:
        facts = training.run.facts
        training.run.append("side_by_side", trainings=job.at_a_time)
        if caution := training.task.caution(facts.device, facts.threads):
            progress.note(caution)
        listeners: list[Progress] = [progress]
        if job.tensorboard:
            listeners.append(TensorBoardProgress(job.folder / "tensorboard"))
        return ProgressGroup(*listeners)

    listeners = Listeners(progress, started, lambda _: progress)
    with baselines_shared_in(job.shared):
        return train_one(job.request, job.folder, listeners, job.own_page, job.checkpoint_every)


if __name__ == "__main__":
    sys.exit(main())
