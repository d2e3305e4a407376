"""Seeds and threads that no training can take: refused before anything is written."""

import os

from porism.errors import Advice, RecipeError, advise, option

LARGEST_SEED = 2**32 - 1
"""Tasks shift and multiply a seed to draw anew in each epoch: so far up there is room for that in 64 bits."""
MOST_THREADS = max(1024, os.cpu_count() or 1)
"""More than any machine's cores. What is beyond the system's own limit ends the process without a word."""
MOST_SEEDS = 10_000


def check_seed(seed: int, count: int | None = None) -> None:
    """Refuse a seed, or the first of so many, that some task cannot draw from."""
    if not 0 <= seed <= LARGEST_SEED:
        raise _refused("seed", f"takes a whole number from 0 to {LARGEST_SEED}, got {seed}.")
    if count is None:
        return
    if not 1 <= count <= MOST_SEEDS:
        raise _refused("seeds", f"takes a whole number from 1 to {MOST_SEEDS}, got {count}.")
    if seed + count - 1 > LARGEST_SEED:
        goes = advise(f"{{}} with {{}} goes beyond the largest seed, {LARGEST_SEED}.", *_both(seed, count))
        raise RecipeError("", goes)


def check_threads(threads: int | None) -> None:
    """Refuse what would end in a segmentation fault."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise _refused("threads", f"takes a whole number from 1 to {MOST_THREADS}, got {threads}.")


def _both(seed: int, count: int) -> tuple[Advice, Advice]:
    return option("seed", str(seed)), option("seeds", str(count))


def _refused(name: str, takes: str) -> RecipeError:
    return RecipeError("", advise(f"{{}} {takes}", option(name)))
