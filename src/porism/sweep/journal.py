"""The journal file of a sweep, which says in a line where it cannot be written or read."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend

from porism.errors import Advice, DiskError
from porism.files import cannot_write
from porism.sweep.journal_lock import JournalLock

GO_ON = Advice(*["Once that is put right, go on with: the same command with --resume."] * 2)
"""After what is no fault of a trial."""


class JournalFile(JournalFileBackend):
    """Optuna's journal file. What a write left half done is cut off by whoever locks it next."""

    def __init__(self, path: Path, lock: JournalLock) -> None:
        super().__init__(str(path), lock)
        self.path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        try:
            super().append_logs(logs)
        except OSError as error:
            raise DiskError(cannot_write(self.path, error, len(str(logs))).problem, GO_ON) from error

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        try:
            yield from super().read_logs(log_number_from)
        except OSError as error:
            raise DiskError(f"{self.path} can no longer be read: {error.strerror}.", GO_ON) from error
