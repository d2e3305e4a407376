"""The lock of a journal file: held by the open file, so that a writer that dies gives it back.

Optuna's own locks are files that a dead writer leaves behind: the others wait half a minute, then take the lock by the
clock, also from a writer that is only slow.
"""

import time
from pathlib import Path

from optuna.storages.journal import JournalFileSymlinkLock

from porism.errors import RunError
from porism.runs.lock import Lock, is_locked

LONGEST_WAIT = 0.02
FAILURES = 20
"""After which a lock that nobody holds and that cannot be taken is an error."""


class JournalLock(JournalFileSymlinkLock):
    """One writer of a journal at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self.folder = path.parent / f".{path.name}"
        self.folder.mkdir(exist_ok=True)
        self._lock: Lock | None = None

    def acquire(self) -> bool:
        wait, failures = 0.001, 0
        while True:
            try:
                self._lock = Lock(self.folder)
            except RunError:
                failures += not is_locked(self.folder)
                if failures > FAILURES:
                    raise
                time.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
            else:
                self._cut_half_line()
                return True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _cut_half_line(self) -> None:
        """Take away what a writer that died did not write to its end: the next line would be appended to it."""
        if not self.path.is_file():
            return
        with self.path.open("rb+") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
