"""One writer a run: a lock that the operating system takes back when its process ends, however it ends."""

import errno
import os
import re
import stat
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from weakref import WeakSet

from porism.errors import RunError
from porism.files import cannot_write

LOCK = ".lock"
SIGNATURE = re.compile(rb"(porism (?P<process>\d+)\n)?")
"""What porism writes into the file of a lock. It is empty for a moment before."""
ATTEMPTS, PAUSE = 4, 0.02
"""Of taking a lock, and seconds between them: who only asks whether it is taken (`is_locked`) holds it for a moment."""
TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
MISSING = {getattr(errno, name) for name in ("ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK") if hasattr(errno, name)}
"""What file systems without locks answer, as some of clusters do. A run on one goes on without."""

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30
    """Windows lets nobody read what is locked, so the locked byte lies far after what the file holds."""

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _give_back(descriptor: int) -> None:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class Lock:
    """The right to write into a run's folder, until `release`, until nobody refers to it, or until the process ends.

    The lock belongs to the open file. The file stays when the lock is given back: to delete it would let two processes
    lock two files of one name. wait: until another process gives it back, instead of refusing.
    """

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        self._descriptor: int | None = None
        path = folder / LOCK
        try:
            # A link of that name may point at a file of somebody else.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as error:
            raise cannot_write(path, error, 0) from error
        try:
            _refuse_foreign(path, descriptor)
            _lock(folder, descriptor, wait)
            _sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            with suppress(OSError):
                _give_back(self._descriptor)
            self._forget()

    def _forget(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()


def is_locked(folder: Path) -> bool:
    """Whether a process writes into a run's folder now. False where the file system has no locks."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        _take(descriptor)
        _give_back(descriptor)
    except OSError as error:
        return error.errno in TAKEN
    finally:
        os.close(descriptor)
    return False


def is_lock(path: Path) -> bool:
    """Whether a file is one of a lock, by what it holds."""
    try:
        return path.is_file() and not path.is_symlink() and SIGNATURE.fullmatch(path.read_bytes()) is not None
    except OSError:
        return False


def _refuse_foreign(path: Path, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not SIGNATURE.fullmatch(os.read(descriptor, 64)):
        raise RunError(f"{path} is a file that porism did not write, and the lock of a run has that name. Move it.")


def _lock(folder: Path, descriptor: int, wait: bool) -> None:
    for attempt in count() if wait else range(ATTEMPTS):
        try:
            _take(descriptor)
        except OSError as error:
            if error.errno in MISSING:
                return
            if error.errno not in TAKEN:
                raise cannot_write(folder / LOCK, error, 0) from error
            if wait or attempt < ATTEMPTS - 1:
                time.sleep(PAUSE)
        else:
            return
    raise RunError(f"{_holder(descriptor)} trains in {folder}. Wait for it or stop it.")


def _holder(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    signed = SIGNATURE.fullmatch(os.read(descriptor, 64))
    process = int(signed["process"]) if signed and signed["process"] else None
    if process == os.getpid():
        return "this process already"
    return "another process" if process is None else f"another process, {process},"


def _sign(descriptor: int) -> None:
    # Only for the message to others: a full disk keeps nobody from training on.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, b"porism %d\n" % os.getpid())


_held: WeakSet[Lock] = WeakSet()


def _forget_all() -> None:
    """A child that was forked shares the open files: kept open there, they would outlive the process that trains."""
    for lock in list(_held):
        lock._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
