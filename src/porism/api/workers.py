"""Several trainings at a time, each in a process of its own with its share of the threads."""

import pickle
import pickletools
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch

from porism.api.trainings import Outcome
from porism.api.worker import Job
from porism.errors import Advice, Interrupted, PorismError, RecipeError, RunError, advise, option, shown
from porism.training.interrupt import Interrupt
from porism.training.limits import whole_number
from porism.training.progress import Progress
from porism.training.worker_process import Messages, WorkerProcess, stop_all

MOST_WORKERS = 1024
LOOK_EVERY = 0.2
"""Seconds after which a request to stop is seen."""


def thread_share(workers: int) -> int:
    """The threads of each of so many trainings at a time, where none are given: an equal part of the cores.

    >>> thread_share(1000)
    1
    """
    return max(1, torch.get_num_threads() // workers)


def check_workers(workers: int) -> int:
    """The number of processes. Refused where it cannot be."""
    found = whole_number(workers)
    if found is None or not 1 <= found <= MOST_WORKERS:
        takes = f"{{}} takes a whole number from 1 to {MOST_WORKERS}, got {shown(workers)}."
        raise RecipeError("", advise(takes, option("workers")))
    return found


def check_jobs(jobs: Sequence[Job]) -> None:
    """Refuse what cannot be trained beside others, before anything is trained: a budget of time, which would not be
    equal, and what another process cannot be sent."""
    for job in jobs:
        recipe = job.request.recipe
        if recipe.max_seconds is not None:
            raise RecipeError(
                f"{recipe.max_seconds:g} seconds are not the same for all where {job.at_a_time} trainings share the "
                "machine.",
                advise("Leave {} out, or give a {} of epochs or examples.", option("workers"), option("budget")),
            )
    for number, job in enumerate(jobs):
        # The data is the same for all.
        brought = job.request.user_objects if number == 0 else replace(job.request.user_objects, data=None)
        _check_sendable(job._replace(request=replace(job.request, user_objects=brought)))


def _check_sendable(job: Job) -> None:
    try:
        sent = pickle.dumps(job)
    except Exception as error:
        raise _cannot_be_sent(job, str(error)) from None
    if any(argument == "__main__" for _, argument, _ in pickletools.genops(sent)):
        raise _cannot_be_sent(job, "it is defined in the script or notebook itself")


def _cannot_be_sent(job: Job, why: str) -> RecipeError:
    return RecipeError(
        f"{job.name} cannot be trained in a process of its own: {why}. Define models, losses and data in a module that "
        "can be imported,",
        advise("or leave {} out.", option("workers")),
    )


def train_side_by_side(jobs: Sequence[Job], workers: int, listen: Callable[[str], Progress]) -> list[Outcome]:
    """Train jobs in so many processes at a time; their outcomes, in the order of the jobs.

    listen: gives the receiver of a training's progress, by the training's name. A process that dies, or a training
    that is refused, does not end the others; when those are done, it is an error.
    """
    pool = Pool(jobs, listen)
    pool.run(workers)
    if pool.failed:
        (name, error), *others = pool.failed.items()
        more = f" So is {', '.join(other for other, _ in others)}: see above." if others else ""
        done = f"{len(pool.outcomes)} of {len(jobs)} trainings are done, and kept."
        raise type(error)(f"{name}: {error.problem}{more} {done}", error.advice) from error
    return [pool.outcomes[job.name] for job in jobs]


class Pool:
    """Processes that train, the jobs that wait for one, and what came of the others."""

    def __init__(self, jobs: Sequence[Job], listen: Callable[[str], Progress]) -> None:
        self.waiting = deque(jobs)
        self.folder = jobs[0].folder.parent
        self.listeners = {job.name: listen(job.name) for job in jobs}
        self.outcomes: dict[str, Outcome] = {}
        self.failed: dict[str, PorismError] = {}
        self.workers: list[WorkerProcess[Job]] = []
        self.messages: Messages[Job] = SimpleQueue()

    def run(self, workers: int) -> None:
        """Train all jobs, so many at a time."""
        try:
            with Interrupt() as interrupt:
                for _ in range(min(workers, len(self.waiting))):
                    self._start()
                while any(worker.job for worker in self.workers):
                    with suppress(Empty):
                        self._hear(*self.messages.get(timeout=LOOK_EVERY))
                    if interrupt.requested:
                        raise Interrupted("stopped, and saved.", _go_on(self.folder))
        except BaseException:
            stop_all(self.workers)
            raise
        finally:
            for listener in self.listeners.values():
                listener.close()
            for worker in self.workers:
                worker.close()

    def _start(self) -> None:
        """A process for the next job, if one waits."""
        if self.waiting:
            self.workers.append(WorkerProcess("porism.api.worker", self.messages))
            self.workers[-1].give(self.waiting.popleft())

    def _hear(self, worker: WorkerProcess[Job], message: tuple[Any, ...]) -> None:
        job = worker.job
        if job is None:  # the end of a process that has nothing to do
            return
        listener = self.listeners[job.name]
        match message:
            case ("steps", steps, units):
                for left in range(steps, 0, -1):
                    listener.step(units if left == 1 else 0)
            case ("done", result, diverged):
                self.outcomes[job.name] = Outcome(job.folder, job.request, result, diverged)
                if diverged is not None:
                    listener.note(f"diverged: {diverged}")
                self._next(worker)
            case ("failed", error):
                self._fail(job, error)
                self._next(worker)
            case ("ended",):
                self._fail(job, RunError(f"its process ended with {worker.how_it_ended()}."))
                worker.job = None
                self._start()
            case (kind, *words):
                getattr(listener, kind)(*words)

    def _next(self, worker: WorkerProcess[Job]) -> None:
        """The next job for a process that has done one."""
        worker.job = None
        if self.waiting:
            worker.give(self.waiting.popleft())

    def _fail(self, job: Job, error: PorismError) -> None:
        self.failed[job.name] = error
        self.listeners[job.name].note(str(error))
        self.listeners[job.name].close()


def _go_on(folder: Path) -> Advice:
    # The command line has a command for it, and says that itself.
    return Advice("", f"Go on with: the same call with out={str(folder)!r}, resume=True.")
