"""Lines `progress` of a run's events, at most one a second: who watches it from outside sees it learn in an epoch."""

import time

from porism.runs.run import RunFolder
from porism.training.position import Position
from porism.training.task import Task

EVERY_SECONDS = 1.0


class ProgressEvents:
    """Says in the events how far one epoch has come.

    last: the steps of the epoch. total: the steps of the whole training, with `done` of them before this epoch.
    """

    def __init__(self, run: RunFolder, task: Task, at: Position, *, last: int, done: int, total: int) -> None:
        self.run, self.task, self.at = run, task, at
        self.last, self.done, self.total = last, done, total
        self.first, self.units, self.since = at.step, at.units, time.monotonic()
        self.written = self.since

    def step(self, now: float) -> None:
        """After a step whose loss was read. now: the clock, as time.monotonic gives it."""
        if now - self.written < EVERY_SECONDS:
            return
        self.written, at = now, self.at
        steps_a_second = (at.step - self.first) / (now - self.since)
        self.run.append(
            "progress",
            **self.task.recipe.numbered(epoch=at.epoch),
            step=at.step,
            steps=self.last,
            loss=at.loss / at.units,
            rate=round((at.units - self.units) / (now - self.since), 1),
            unit=self.task.unit,
            seconds_left=round(max(0, self.total - self.done - at.step) / steps_a_second, 1),
        )
