"""Seeds and threads that no training can take: refused before anything is written."""

import operator
import os
from collections.abc import Iterable, Mapping

from porism.errors import Advice, RecipeError, advise, option, shown

LARGEST_SEED = 2**32 - 1
"""Tasks shift and multiply a seed to draw anew in each epoch: so far up there is room for that in 64 bits."""
MOST_THREADS = max(1024, os.cpu_count() or 1)
"""More than any machine's cores. What is beyond the system's own limit ends the process without a word."""
MOST_SEEDS = 10_000


def whole_number(value: object) -> int | None:
    """A whole number of any kind, such as NumPy's, as one of Python; None for all else, True and False too.

    >>> whole_number(3), whole_number(3.0), whole_number(True)
    (3, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what it is not meant for is refused
    except TypeError:
        return None


def check_seed(seed: int, count: int | None = None) -> int:
    """The seed. Refused where some task cannot draw from it, or from the last of so many."""
    found = whole_number(seed)
    if found is None or not 0 <= found <= LARGEST_SEED:
        raise _refused("seed", f"takes a whole number from 0 to {LARGEST_SEED}, got {shown(seed)}.")
    if count is None:
        return found
    if not 1 <= count <= MOST_SEEDS:
        raise _refused("seeds", f"takes a whole number from 1 to {MOST_SEEDS}, got {count}.")
    if found + count - 1 > LARGEST_SEED:
        goes = advise(f"{{}} with {{}} goes beyond the largest seed, {LARGEST_SEED}.", *_both(found, count))
        raise RecipeError("", goes)
    return found


def check_seeds(seeds: object) -> int | list[int]:
    """How many seeds, or which: in numbers of Python."""
    if (count := whole_number(seeds)) is not None:
        return count
    listed = list(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes | Mapping) else [None]
    found = [number for number in map(whole_number, listed) if number is not None]
    if len(found) < len(listed):
        raise _refused(
            "seeds", f"takes a whole number from 1 to {MOST_SEEDS}, or seeds such as [1, 2, 5], got {shown(seeds)}."
        )
    return found


def check_threads(threads: int | None) -> int | None:
    """The number of threads. Refused where it would end in a segmentation fault."""
    if threads is None:
        return None
    found = whole_number(threads)
    if found is None or not 1 <= found <= MOST_THREADS:
        raise _refused("threads", f"takes a whole number from 1 to {MOST_THREADS}, got {shown(threads)}.")
    return found


def _both(seed: int, count: int) -> tuple[Advice, Advice]:
    return option("seed", str(seed)), option("seeds", str(count))


def _refused(name: str, takes: str) -> RecipeError:
    return RecipeError("", advise(f"{{}} {takes}", option(name)))
