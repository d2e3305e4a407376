"""Worker processes, as the server sees them: they are given jobs, requests to cancel, and are ended."""

import signal
from queue import SimpleQueue
from typing import Any, ClassVar

from porism.training.worker_process import WorkerProcess

NICENESS = 10
"""The page and everything else on the machine go first."""
JobMessage = tuple[Any, ...]
"""`("progress", job, done, of, unit)`, `("part", job, {...})`, `("done", job, result)`, `("failed", job, error)`,
`("cancelled", job)`, and `("ended",)` from the process itself."""


class Worker(WorkerProcess[Any]):
    """A process that runs the module of its name in `package`."""

    package: ClassVar[str] = "porism.web.processes"

    def __init__(self, name: str, messages: SimpleQueue[Any]) -> None:
        self.name = name
        super().__init__(f"{self.package}.{name}", messages, NICENESS)

    def cancel(self, job: str) -> None:
        """Ask it to stop a job after the step at hand."""
        self.send(("cancel", job))

    def end(self) -> None:
        """End it at once."""
        self.stop(signal.SIGKILL)
