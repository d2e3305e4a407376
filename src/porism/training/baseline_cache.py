"""Baselines that were measured once, kept in the cache folder: they are the same until data, code or machine change.

A file is named for all that they depend on: the data and what else the task says that decides them, the source of
layers, tasks and costing, the versions of what they are fitted with, the kind of processor and how many threads share a
sum. One that cannot be read is measured again and replaced, and a line says so.
"""

import os
import warnings
from collections.abc import Hashable
from importlib.util import find_spec
from pathlib import Path

import torch

from porism.costing.code_version import source_checksum, versions
from porism.errors import RunError
from porism.files import cache_folder, read_kept, sha256_of_json, warn_not_kept, write_kept
from porism.training.task import Task

Baselines = dict[str, dict[str, dict[str, float]]]
"""Name, then split, to metrics."""
Key = tuple[str, Hashable]
"""A task's name and what decides its baselines."""
FOLDER = "baselines"
FITTED_WITH = {
    **{name: name for name in ("torch", "numpy", "scipy", "gensim", "numba", "rapidfuzz")},
    "sklearn": "scikit-learn",
}
"""Module to package. Where one cannot be imported, a baseline is left out."""
MOST_KEPT = 500
"""Files of less than 2 kB each."""


def kept_baselines(task: Task, key: Key) -> Baselines | None:
    """What an earlier process has kept, if there is any."""
    if (file := _file(task, key)) is None:
        return None
    try:
        found: Baselines | None = read_kept(file)
    except (OSError, ValueError) as error:
        warnings.warn(f"baselines: {file} cannot be read ({error}); they are measured again.", stacklevel=2)
        return None
    return found


def keep_baselines(task: Task, key: Key, found: Baselines) -> None:
    """Keep them for later processes, where all that they depend on is known."""
    if (file := _file(task, key)) is None:
        return
    try:
        write_kept(file, found, MOST_KEPT)
    except (OSError, RunError) as error:
        warn_not_kept("baselines: they", file.parent, error)


def _file(task: Task, key: Key) -> Path | None:
    """None where it is not known what they depend on: the code is no longer what was loaded, or another package's; or
    the data is in memory, where the fingerprint of a Dataset is that of some examples."""
    source, is_own = source_checksum(), type(task).baselines.__module__.startswith("porism.")
    if source is None or not is_own or task.user_objects.data is not None:
        return None
    decided_by = {
        "task and data": repr(key),
        "source": source,
        "fitted with": versions(tuple(FITTED_WITH[name] for name in FITTED_WITH if find_spec(name) is not None)),
        # The bits of a sum depend on how many threads share it, of torch and of the libraries of the others.
        "threads": [torch.get_num_threads(), os.cpu_count()],
        **{name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")},
    }
    return cache_folder() / FOLDER / f"{sha256_of_json(decided_by)}.json"
