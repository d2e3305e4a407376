"""Baselines of a task, measured once for all runs of a process on the same data."""

from collections.abc import Hashable

import torch

from porism.training.task import Task

Baselines = dict[str, dict[str, dict[str, float]]]
"""Name, then split, to metrics."""
MOST_KEPT = 8
_known: dict[tuple[str, Hashable], Baselines] = {}


def baselines_of(task: Task) -> Baselines:
    """What simple models reach on the task's data. A comparison of ten models measures them once."""
    key = task.name, task.baselines_key()
    if key not in _known:
        if len(_known) == MOST_KEPT:
            _known.pop(next(iter(_known)))
        # What follows draws the same numbers, whether they are known already or not.
        with torch.random.fork_rng(devices=[]):
            _known[key] = task.baselines()
    return _known[key]
