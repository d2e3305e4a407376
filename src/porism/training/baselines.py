"""Baselines of a task, measured once for all runs on the same data: of a process, and of processes side by side."""

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from porism.files import sha256, write_atomically
from porism.runs.lock import Lock
from porism.training.task import Task

Baselines = dict[str, dict[str, dict[str, float]]]
"""Name, then split, to metrics."""
MOST_KEPT = 8
MEASURED = "baselines.json"
_known: dict[tuple[str, Hashable], Baselines] = {}
_shared: list[Path] = []
"""The folder that processes share, while there is one."""


@contextmanager
def baselines_shared_in(folder: Path) -> Iterator[None]:
    """Let processes that are given the same folder measure the baselines of one task once, while this lasts."""
    _shared.append(folder)
    try:
        yield
    finally:
        _shared.pop()


def begin_baselines(task: Task) -> None:
    """Start what takes long of the baselines, where this process measures them; `baselines_of` waits for it."""
    if (task.name, task.baselines_key()) not in _known and not _shared:
        task.begin_baselines()


def baselines_of(task: Task) -> Baselines:
    """What simple models reach on the task's data. A comparison of ten models measures them once."""
    key = task.name, task.baselines_key()
    if key not in _known:
        if len(_known) == MOST_KEPT:
            _known.pop(next(iter(_known)))
        _known[key] = _by_one_process(task, _shared[-1] / sha256(repr(key).encode())) if _shared else _measured(task)
    return _known[key]


def _by_one_process(task: Task, folder: Path) -> Baselines:
    """What the first process to come here measures; the others wait for it."""
    folder.mkdir(exist_ok=True)
    lock = Lock(folder, wait=True)
    try:
        path = folder / MEASURED
        if not path.exists():
            write_atomically(path, json.dumps(_measured(task)).encode())
        found: Baselines = json.loads(path.read_bytes())
        return found
    finally:
        lock.release()


def _measured(task: Task) -> Baselines:
    # What follows draws the same numbers, whether they are known already or not.
    with torch.random.fork_rng(devices=[]):
        return task.baselines()
