"""A process of ours that is given jobs over standard input and says what happens over standard output, both pickled."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any, Generic, TypeVar

START = "import os, sys; os.nice({}) if hasattr(os, 'nice') else None; from {} import main; sys.exit(main())"
AnyJob = TypeVar("AnyJob")
Messages = SimpleQueue[tuple["WorkerProcess[AnyJob]", Any]]
"""What processes say, each with who says it."""


class WorkerProcess(Generic[AnyJob]):
    """A process that trains, and the job it is at.

    module: the one whose `main` it runs. niceness: how far it lets others go first, from its start on: to import what
    it needs takes seconds.
    """

    def __init__(self, module: str, messages: "Messages[AnyJob]", niceness: int = 0) -> None:
        self.job: AnyJob | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        # In a session of its own: Ctrl-C reaches this process alone, which stops the others once.
        self.process = subprocess.Popen(
            [sys.executable, "-c", START.format(niceness, module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._receive, args=(self.process.stdout, messages), daemon=True)
        self._reader.start()

    def _receive(self, stream: IO[bytes], messages: "Messages[AnyJob]") -> None:
        # A process that is killed may leave half a message.
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                messages.put((self, pickle.load(stream)))
        messages.put((self, ("ended",)))

    def give(self, job: AnyJob) -> None:
        self.job = job
        self.send(job)

    def send(self, message: Any) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which is reported in its turn
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def stop(self, number: signal.Signals) -> None:
        """Send it a signal, after which no more jobs will come."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self._no_more_jobs()

    def close(self) -> None:
        """Let it end, and wait for that."""
        assert self.process.stdout is not None
        self._no_more_jobs()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self._errors.close()

    def _no_more_jobs(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def how_it_ended(self) -> str:
        """The exit code in words, with the last line that the process wrote."""
        code = self.process.wait()
        killed = f" ({signal.Signals(-code).name})" if -code in set(signal.Signals) else ""
        return f"exit code {code}{killed}{f': {line}' if (line := self.last_line()) else ''}"

    def last_line(self) -> str:
        """The last line that the process has written to standard error."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def stop_all(workers: "Iterable[WorkerProcess[Any]]") -> None:
    """Let all processes save and end. A second Ctrl-C stops them at once, a third kills them."""
    workers = list(workers)
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        for worker in workers:
            worker.stop(number)
        with suppress(KeyboardInterrupt):
            for worker in workers:
                worker.process.wait()
            return
