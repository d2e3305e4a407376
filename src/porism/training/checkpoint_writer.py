"""Checkpoints written beside the training: it goes on while their bytes are hashed, written and synced."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from threading import Thread

from porism.runs.checkpoint import Snapshot


class CheckpointWriter:
    """Writes snapshots in a thread of its own, one after another in the order in which they came.

    >>> writer = CheckpointWriter(run.writing)
    >>> writer.write([best, last])      # waits for what came before, and not for these
    >>> writer.wait()                   # now they are on the disk

    An error of the thread comes up in the next call of any method. locked: holds the lock of the run while it lasts. A
    thread that nobody waits for, as on one Ctrl-C after another, keeps the run from others until it is done.
    """

    def __init__(self, locked: Callable[[], AbstractContextManager[None]]) -> None:
        self._locked = locked
        self.seconds = 0.0
        """That the last ones took."""
        self._writing: _Writing | None = None

    def write(self, snapshots: Sequence[Snapshot]) -> None:
        """Begin to write these, once those before are on the disk."""
        self.wait()
        lock = ExitStack()
        lock.enter_context(self._locked())
        writing = _Writing(snapshots, lock)
        writing.start()
        self._writing = writing

    def wait(self) -> None:
        """Return when nothing is being written."""
        if (writing := self._writing) is None:
            return
        writing.join()
        self._writing = None
        self.seconds = writing.seconds
        if writing.error is not None:
            raise writing.error

    def check(self) -> None:
        """Raise what kept the last ones from the disk, where that is known by now."""
        if self._writing is not None and not self._writing.is_alive():
            self.wait()

    def is_busy(self) -> bool:
        """Whether something is being written."""
        self.check()
        return self._writing is not None


class _Writing(Thread):
    """Not a daemon: a process that ends waits for it, so that what was begun becomes whole."""

    def __init__(self, snapshots: Sequence[Snapshot], lock: ExitStack) -> None:
        super().__init__(name="checkpoint")
        self.seconds = 0.0
        self.error: BaseException | None = None
        self._snapshots, self._lock = snapshots, lock

    def run(self) -> None:
        began = time.monotonic()
        with self._lock:
            try:
                for snapshot in self._snapshots:
                    snapshot.save()
            except BaseException as error:  # whatever it is, it is raised where it is waited for
                self.error = error
        self._snapshots = ()
        self.seconds = time.monotonic() - began
