"""What was worked out of costs once, kept in the cache folder until the code changes. Imports no sympy.

A file is named for all that its content depends on: the source of layers, tasks and costing, the versions of torch and
of what else is counted with, the kind of processor, the recipe and its letters. It is written whole or not at all; one
that cannot be read is derived again and replaced, and a line says so.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from porism.costing.code_version import source_checksum, versions
from porism.errors import RunError
from porism.files import cache_folder, read_kept, sha256_of_json, warn_not_kept, write_kept

FORMULAS, CONFIRMED, TABLES = "formulas", "formulas/confirmed", "formulas/tables"
COUNTED_WITH = ("torch", "sympy", "numpy", "numba", "transformers")
MOST_KEPT = 500
"""Files of some 20 kB each, and of a few bytes."""


Kept = TypeVar("Kept")


def file_of(parts: Mapping[str, Any], folder: str = FORMULAS) -> Path | None:
    """Where the formulas of what `parts` tell are kept; None where the code they follow from is not known."""
    source = source_checksum()
    if source is None:
        return None
    key = {"parts": parts, "source": source, "counted with": versions(COUNTED_WITH)}
    return cache_folder() / folder / f"{sha256_of_json(key)}.json"


def keep(file: Path, content: Any, what: str) -> None:
    """Keep plain JSON for later processes; where that cannot be, a line says so."""
    try:
        write_kept(file, content, MOST_KEPT)
    except (OSError, RunError) as error:
        warn_not_kept(f"cost: {what}", file.parent, error)


def read(file: Path, made_of: Callable[[Any], Kept]) -> Kept | None:
    """What an earlier process has kept, as `made_of` makes it of plain JSON; None where nothing is."""
    try:
        content = read_kept(file)
        return None if content is None else made_of(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        warnings.warn(f"cost: {file} cannot be read ({error}) and is derived again.", stacklevel=3)
        return None
