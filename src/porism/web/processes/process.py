"""A worker process: does the jobs it is given, one at a time, and says what happens.

Jobs come over standard input, messages go out over standard output, both pickled; what the code of a job prints goes to
standard error. When the server is gone, standard input ends, and the process with it.
"""

import os
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from porism.errors import PorismError
from porism.web.plain_json import plain_json

FIRST_TO_END = 500
"""Of 1,000: where memory runs out, the system ends this process, and not the server."""


class Cancelled(BaseException):
    """The job must stop. No error: code that catches all errors must not catch it."""


class JobStep:
    """What a job says while it runs, and where it learns that it is to stop."""

    def __init__(self, job: str, send: Callable[..., None], cancelled: set[str]) -> None:
        self._job, self._send, self._cancelled = job, send, cancelled

    def check(self) -> None:
        """Between two steps: stop here if that was requested."""
        if self._job in self._cancelled:
            raise Cancelled

    def progress(self, done: int, of: int | None = None, unit: str = "") -> None:
        self.check()
        self._send("progress", self._job, done, of, unit)

    def part(self, **part: Any) -> None:
        """Something that can be shown before the end."""
        self.check()
        self._send("part", self._job, plain_json(part))


Handler = Callable[[dict[str, Any], JobStep], dict[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> int:
    """Do jobs until standard input ends. handlers: the function for each kind."""
    _be_considerate()
    sending = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    jobs: SimpleQueue[tuple[str, str, dict[str, Any]]] = SimpleQueue()
    cancelled: set[str] = set()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, jobs, cancelled), daemon=True).start()
    lock = threading.Lock()

    def send(*message: Any) -> None:
        with lock:
            pickle.dump(message, sending)
            sending.flush()

    while True:
        job, kind, payload = jobs.get()
        try:
            send("done", job, plain_json(handlers[kind](payload, JobStep(job, send, cancelled))))
        except Cancelled:
            send("cancelled", job)
        except Exception as error:
            send("failed", job, error_json(error))
        cancelled.discard(job)


def error_json(error: Exception) -> dict[str, str]:
    """What a job that failed says: a refusal of ours in its own words, anything else as a fault."""
    if isinstance(error, PorismError):
        hint = error.advice.command_line if error.advice is not None else ""
        return {"code": type(error).__name__, "message": error.problem or str(error), "hint": hint}
    line = next(iter(str(error).strip().splitlines()), "")
    return {"code": "internal", "message": f"{type(error).__name__}: {line}", "hint": ""}


def _receive(stream: IO[bytes], jobs: "SimpleQueue[Any]", cancelled: set[str]) -> None:
    while True:
        try:
            message = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            os._exit(0)
        if message[0] == "cancel":
            cancelled.add(message[1])
        else:
            jobs.put(message)


def _be_considerate() -> None:
    """Leave the machine a core, and take no other process along where memory runs out."""
    import torch

    with suppress(OSError):  # not Linux, or not permitted
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_END))
    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
