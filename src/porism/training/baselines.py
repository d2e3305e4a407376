"""Baselines of a task, measured once for all runs on the same data: of a process, of processes side by side, and by the
cache folder of later ones."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from porism.files import sha256, write_atomically
from porism.runs.lock import Lock
from porism.training.baseline_cache import Baselines, Key, keep_baselines, kept_baselines
from porism.training.task import Task

MOST_KEPT = 8
MEASURED = "baselines.json"
_known: dict[Key, Baselines] = {}
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
    key = task.name, task.baselines_key()
    if key in _known or _shared:
        return
    if (kept := kept_baselines(task, key)) is not None:
        _remember(key, kept)
    else:
        task.begin_baselines()


def baselines_of(task: Task) -> Baselines:
    """What simple models reach on the task's data. A comparison of ten models measures them once."""
    key = task.name, task.baselines_key()
    if key not in _known:
        _remember(key, _by_one_process(task, key, _shared[-1]) if _shared else _kept_or_measured(task, key))
    return _known[key]


def _remember(key: Key, found: Baselines) -> None:
    if len(_known) == MOST_KEPT:
        _known.pop(next(iter(_known)))
    _known[key] = found


def _by_one_process(task: Task, key: Key, shared: Path) -> Baselines:
    """What the first process to come here measures; the others wait for it."""
    folder = shared / sha256(repr(key).encode())
    folder.mkdir(exist_ok=True)
    lock = Lock(folder, wait=True)
    try:
        path = folder / MEASURED
        if not path.exists():
            write_atomically(path, json.dumps(_kept_or_measured(task, key)).encode())
        found: Baselines = json.loads(path.read_bytes())
        return found
    finally:
        lock.release()


def _kept_or_measured(task: Task, key: Key) -> Baselines:
    if (kept := kept_baselines(task, key)) is not None:
        return kept
    # What follows draws the same numbers, whether they are known already or not.
    with torch.random.fork_rng(devices=[]):
        found = task.baselines()
    keep_baselines(task, key, found)
    return found
