"""A set of data that no default was tuned for, and how its tables are written."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DataSet:
    """One set of data: how it is written to a path, and what a task must be told about it."""

    task: str
    name: str
    about: str
    write: Callable[[Path], None]
    ending: str = ""
    """Of the file; empty for a folder."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the recipe, where the data decides them: a loss."""

    def made(self, folder: Path) -> Path:
        """Where it is, once it is written."""
        path = folder / self.task / f"{self.name}{self.ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write(path)
        return path


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
