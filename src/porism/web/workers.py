"""Worker processes, as the server sees them: they are given jobs, told to cancel, and ended."""

import pickle
import signal
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from porism.training.worker_process import WorkerProcess

JobMessage = tuple[Any, ...]
"""`("progress", job, done, of, unit)`, `("part", job, {...})`, `("done", job, result)`, `("failed", job, error)`,
`("cancelled", job)`, and `("ended",)` from the process itself."""


class Worker(WorkerProcess[Any]):
    """A process that runs `porism.web.work.NAME`."""

    def __init__(self, name: str, messages: SimpleQueue[Any]) -> None:
        self.name = name
        super().__init__(f"porism.web.work.{name}", messages)

    def cancel(self, job: str) -> None:
        """Ask it to stop a job after the step at hand."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            pickle.dump(("cancel", job), self.process.stdin)
            self.process.stdin.flush()

    def end(self) -> None:
        """End it at once."""
        self.stop(signal.SIGKILL)
