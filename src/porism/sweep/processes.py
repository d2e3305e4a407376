"""Several workers of a sweep on this machine, each in a process of its own."""

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from porism.errors import Advice, Interrupted, PorismError, RunError
from porism.sweep.child import SweepJob
from porism.sweep.queue import TrialQueue
from porism.training.interrupt import Interrupt
from porism.training.worker_process import Messages, WorkerProcess, stop_all

POLL_EVERY = 0.5
"""Seconds between two polls of the trials, and after which a request to stop is seen."""
QUICK = 3.0
"""Seconds. A process that ends sooner has probably not begun."""
MOST_QUICK = 5
"""Processes that may end so soon in a row, after which no more are started."""


class SweepProcesses:
    """Processes that work at a sweep. One that dies is replaced: its trial goes on in another."""

    def __init__(self, job: SweepJob, queue: TrialQueue, seen: Callable[[], None], note: Callable[[str], None]) -> None:
        self.job, self.queue, self.seen, self.note = job, queue, seen, note
        self.messages: Messages[SweepJob] = SimpleQueue()
        self.workers: list[WorkerProcess[SweepJob]] = []
        self.begun: dict[int, float] = {}
        self.quick = 0

    def run(self) -> None:
        """Work until every trial has an outcome."""
        try:
            with Interrupt() as interrupt:
                for _ in range(min(self.job.workers, self.job.plan.trials)):
                    self._start()
                while not self.queue.done:
                    with suppress(Empty):
                        worker, _ = self.messages.get(timeout=POLL_EVERY)
                        self._ended(worker)
                    self.seen()
                    if interrupt.requested:
                        go_on = "Go on with: the same command with --resume."
                        raise Interrupted("stopped, and saved.", Advice(go_on, go_on))
        except BaseException:
            stop_all(self.workers)
            raise
        finally:
            for worker in self.workers:
                worker.close()

    def _start(self) -> None:
        worker: WorkerProcess[SweepJob] = WorkerProcess("porism.sweep.child", self.messages)
        self.workers.append(worker)
        self.begun[worker.process.pid] = time.monotonic()
        worker.give(self.job)

    def _ended(self, worker: WorkerProcess[SweepJob]) -> None:
        """Replace a process that has ended before the sweep has."""
        if self.queue.done:
            return
        if worker.process.wait() == PorismError.exit_code:
            # Another would end as it did: what is wrong with a trial alone is the outcome of that trial.
            raise RunError(worker.last_line())
        how = worker.how_it_ended()
        self.quick = self.quick + 1 if time.monotonic() - self.begun[worker.process.pid] < QUICK else 0
        if self.quick >= MOST_QUICK:
            raise RunError(f"the last {self.quick} workers ended at once, the last one with {how}.")
        self.note(f"a worker ended with {how}; its trial goes on in another")
        self._start()
