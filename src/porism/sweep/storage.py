"""Optuna's storages for a sweep: the journal file for one machine, PostgreSQL for many."""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from porism.errors import MissingExtra, RecipeError, RunError, one_line, shown
from porism.runs.lock import Lock, is_locked

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from porism.sweep.journal_lock import JournalLock

JOURNAL = "sweep.journal"
POSTGRESQL = ("postgresql://", "postgresql+psycopg://", "postgres://")
HEARTBEAT = 60
"""Seconds between two heartbeats of a worker, where many machines share a database."""
TRIES = 20
WAIT = 0.02


def import_optuna() -> Any:
    """Optuna, quiet; or a refusal where it is missing."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra('a sweep needs optuna, which is not installed: pip install "porism[sweep]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def is_database(storage: str | None) -> bool:
    """Whether a storage is named by URL."""
    return storage is not None and "://" in storage


def check_storage(storage: str | None) -> None:
    """Refuse a storage that several workers cannot share."""
    if storage is None or not is_database(storage):
        return
    if storage.startswith("sqlite"):
        raise RecipeError(
            "--storage: SQLite is not made for several writers. Leave --storage out for a journal file in the sweep's "
            "folder, or give postgresql://USER@HOST/DATABASE."
        )
    if not storage.startswith(POSTGRESQL):
        scheme = storage.partition("://")[0]
        raise RecipeError(
            f"--storage takes a file for a journal or postgresql://USER@HOST/DATABASE, got one of {scheme}."
        )


def open_storage(
    storage: str | None, folder: Path, heartbeat: float = HEARTBEAT, on_stale: Callable[..., None] | None = None
) -> "BaseStorage":
    """The journal in the sweep's folder, another journal by its path, or a database by its URL.

    heartbeat: seconds between two heartbeats in a database; a trial without any for twice as long is given to
    another worker by `on_stale`.
    """
    check_storage(storage)
    import_optuna()
    if storage is not None and is_database(storage):
        return _database(storage, heartbeat, on_stale)
    return _journal(folder / JOURNAL if storage is None else Path(storage))


def _journal(path: Path) -> "BaseStorage":
    from optuna.storages import JournalStorage

    from porism.sweep.journal import JournalFile
    from porism.sweep.journal_lock import JournalLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_without_locks(path.parent)
        lock = JournalLock(path)
        refuse_damaged(path, lock)
        with quiet():
            return JournalStorage(JournalFile(path, lock))
    except OSError as error:
        raise RunError(f"the journal {path} cannot be written: {error.strerror}. Choose another --out.") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise no_journal(path, one_line(error)) from error


def refuse_damaged(path: Path, lock: "JournalLock") -> None:
    """Refuse a journal with a line that no sweep wrote, before another is added to it.

    What a writer that died left of its last line is no damage: the lock cuts it off.
    """
    if not path.is_file():
        return
    lock.acquire()
    try:
        content = path.read_bytes()
    finally:
        lock.release()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise no_journal(path, f"line {number} is not JSON, {one_line(error)}") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("op_code"), int):
            raise no_journal(path, f"line {number} is {shown(entry)}")


def no_journal(path: Path, why: str) -> RunError:
    """That a file is not what a sweep wrote."""
    return RunError(f"{path} is no journal of a sweep: {why}. Bring it back as it was, or choose another --out.")


def refuse_without_locks(folder: Path) -> None:
    """Refuse a file system on which a dead worker cannot be told from a slow one."""
    probe = folder / f".locks-{os.getpid()}"
    probe.mkdir(exist_ok=True)
    try:
        lock = Lock(probe)
        known = is_locked(probe)
        lock.release()
    finally:
        for left in probe.iterdir():
            left.unlink()
        probe.rmdir()
    if not known:
        raise RunError(
            f"{folder} is on a file system without locks, by which workers keep off one another's trials. Choose "
            "another --out, or give --storage postgresql://USER@HOST/DATABASE."
        )


def _database(url: str, heartbeat: float, on_stale: Callable[..., None] | None) -> "BaseStorage":
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtra('PostgreSQL needs psycopg, which is not installed: pip install "porism[sweep]"') from None
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    address = f"postgresql+psycopg://{url.partition('://')[2]}"
    for attempt in range(TRIES):
        try:
            with quiet():
                return RDBStorage(
                    address,
                    # A connection for each access: none is left open, and none that a restarted server has closed.
                    engine_kwargs={"poolclass": NullPool},
                    heartbeat_interval=heartbeat,  # type: ignore[arg-type]  # fractions are for tests
                    heartbeat_stale_trial_callback=on_stale,
                )
        except OperationalError as error:
            raise RunError(f"--storage cannot be reached: {_first_line(error)}") from error
        except (IntegrityError, ProgrammingError):
            # Another worker creates the same tables at this moment.
            if attempt == TRIES - 1:
                raise
            time.sleep(WAIT * (attempt + 1))
        except SQLAlchemyError as error:
            raise RecipeError(f"--storage cannot be read as a URL: {_first_line(error)}") from error
    raise AssertionError  # the last attempt has raised


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(getattr(error, "orig", None) or error).splitlines() if line.strip()]
    return f"{lines[0].rstrip('.')}." if lines else type(error).__name__


@contextmanager
def storage_lost() -> Iterator[None]:
    """Say in a line that a database can no longer be reached."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        raise RunError(
            f"--storage can no longer be reached: {_first_line(cause)} What is trained is kept: give the same command "
            "again when it can be."
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's warnings about what is experimental, and about heartbeats outside of its own loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
