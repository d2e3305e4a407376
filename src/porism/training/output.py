"""A stream for people that outlives its reader: `porism train | head -1`, a closed terminal, a log on a full disk."""

import os
from typing import Any, TextIO

from porism.errors import PorismError, RunError


class OutputClosed(PorismError):
    """Nobody reads the output any more."""

    exit_code = 141
    """As a shell tells of a program that SIGPIPE ended: 128 + 13."""


class Output:
    """Standard output or standard error.

    patient: where a write fails, remember it in `lost` and go on without output; else raise `OutputClosed`.

    >>> console = Console(file=Output(sys.stdout, patient=True))
    """

    def __init__(self, stream: TextIO, *, patient: bool = False) -> None:
        self._stream, self._patient = stream, patient
        self.lost = ""
        """Why no output can be written any more, empty while it can."""

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: OSError) -> None:
        closed = isinstance(error, BrokenPipeError)
        self.lost = "nobody reads the output" if closed else f"the output cannot be written ({error.strerror})"
        silence(self._stream)
        if not self._patient:
            raise OutputClosed(self.lost) if closed else RunError(f"{self.lost}.")


def silence(stream: TextIO) -> None:
    """Let a stream that cannot be written go nowhere. What it still holds would fail again when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
