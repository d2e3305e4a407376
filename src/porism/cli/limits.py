"""Numbers and names that no task can take: refused before anything is written."""

import dataclasses
import errno
import math
import os
from pathlib import Path
from typing import Any

from porism.errors import RecipeError

LARGEST_SEED = 2**32 - 1
"""Tasks shift and multiply a seed to draw anew in each epoch: so far up there is room for that in 64 bits."""
MOST_THREADS = max(1024, os.cpu_count() or 1)
"""More than any machine's cores. What is beyond the system's own limit ends the process without a word."""
MOST_SEEDS = 10_000
LONGEST_INNER = "last.previous/optimizer.safetensors"
"""What must still fit after the name of a run's folder."""


def check_seed(seed: int, count: int | None = None) -> None:
    """Refuse a seed, or the first of so many, that some task cannot draw from."""
    if not 0 <= seed <= LARGEST_SEED:
        raise RecipeError(f"--seed takes a whole number from 0 to {LARGEST_SEED}, got {seed}.")
    if count is None:
        return
    if not 1 <= count <= MOST_SEEDS:
        raise RecipeError(f"--seeds takes a whole number from 1 to {MOST_SEEDS}, got {count}.")
    if seed + count - 1 > LARGEST_SEED:
        raise RecipeError(f"--seed {seed} with --seeds {count} goes beyond the largest seed, {LARGEST_SEED}.")


def check_threads(threads: int | None) -> None:
    """Refuse what would end in a segmentation fault."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise RecipeError(f"--threads takes a whole number from 1 to {MOST_THREADS}, got {threads}.")


def check_interval(seconds: float) -> None:
    """Refuse a time between checkpoints that never passes; inf leaves those within an epoch out."""
    if math.isnan(seconds) or seconds < 0:
        raise RecipeError(f"--checkpoint-every takes seconds from 0 on, got {seconds:g}. 0 saves after every step.")


def check_paths(command: Any) -> None:
    """Refuse a path among a verb's arguments that no file can have."""
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                check_path(str(path))


def check_path(path: str) -> None:
    """Refuse a name that the system cannot hold, or that cannot be printed."""
    shown = repr(path if len(path) <= 60 else f"{path[:60]}...")
    try:
        path.encode()
        os.lstat(Path(path, LONGEST_INNER))
    except UnicodeEncodeError:
        raise RecipeError(f"the path {shown} is not text in UTF-8. Choose another name.") from None
    except ValueError:
        raise RecipeError(f"the path {shown} holds a zero byte. Choose another name.") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise RecipeError(
                f"the path {shown} is too long for this system: {len(path)} letters. Choose a shorter name."
            ) from None
