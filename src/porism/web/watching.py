"""Watching: one task that looks at the sizes of files twice a second, for all pages that are open."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from porism.web.runs import RunTable

EVERY_SECONDS = 0.5
LIST_EVERY = 2
"""The list of runs is read every so many times."""


class PageWatch:
    """What one open page waits for: growth of some runs' events, changes of the list, changes of jobs."""

    def __init__(self, files: dict[str, Path], listed: bool) -> None:
        self.files, self.listed, self.ended = files, listed, False
        self._changed = asyncio.Event()
        self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        """Wait until something may be new; true at first."""
        await self._changed.wait()
        self._changed.clear()


class Watcher:
    """All open pages, and the task that wakes them."""

    def __init__(self, runs: RunTable) -> None:
        self.runs = runs
        self.rows: dict[str, dict[str, Any]] = {}
        """The list of runs as it was read last."""
        self._watches: set[PageWatch] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    @contextmanager
    def watching(self, files: dict[str, Path], listed: bool) -> Iterator[PageWatch]:
        """A page that is open while this lasts."""
        watch = PageWatch(files, listed)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    def wake_all(self) -> None:
        """Something has changed that any page may wait for."""
        for watch in self._watches:
            watch.wake()

    def end_all(self) -> None:
        """Let all pages go: the server ends."""
        for watch in self._watches:
            watch.ended = True
            watch.wake()

    async def read_rows(self) -> bool:
        """Read the list of runs; whether it has changed."""
        listed = await asyncio.to_thread(self.runs.listed)
        rows = {name: run.row for name, run in listed.items()}
        changed, self.rows = rows != self.rows, rows
        return changed

    async def _look(self) -> None:
        sizes: dict[Path, int] = {}
        for turn in _forever():
            await asyncio.sleep(EVERY_SECONDS)
            watched = {path for watch in self._watches for path in watch.files.values()}
            now = {path: size_of(path) for path in watched}
            grown = {path for path, size in now.items() if sizes.get(path) != size}
            sizes = now
            listed = any(watch.listed for watch in self._watches)
            other_list = listed and turn % LIST_EVERY == 0 and await self.read_rows()
            for watch in list(self._watches):
                if (watch.listed and other_list) or grown.intersection(watch.files.values()):
                    watch.wake()


def size_of(path: Path) -> int:
    """The bytes of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _forever() -> Iterator[int]:
    turn = 0
    while True:
        yield turn
        turn += 1
