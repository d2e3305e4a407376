"""Inputs and targets from a file: an .npz with X and y, or a .csv whose last column is the target."""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from porism.errors import DataError, one_line
from porism.tasks.blocks.arrays import open_npz
from porism.tasks.blocks.download import COMPRESSED, read_content
from porism.tasks.blocks.in_memory import Arrays, arrays
from porism.tasks.blocks.texts import decoded

INPUTS, TARGETS = ("X", "x", "data", "features"), ("y", "target", "targets", "labels")


def read_examples(path: Path) -> Arrays:
    """The examples of a file. Errors give its name, and the line of a table."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise DataError(f"{path}: {found}, expected an .npz with X and y, or a .csv whose last column is the target.")
    kind = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if kind == ".npz":
        return _read_npz(path)
    if kind in (".csv", ".txt"):
        return _read_table(path)
    raise DataError(f"{path}: a {path.suffix or 'file without an ending'}, expected an .npz or a .csv.")


def _read_npz(path: Path) -> Arrays:
    with open_npz(path) as file:
        found = [next((name for name in names if name in file.names), None) for names in (INPUTS, TARGETS)]
        if None in found:
            raise DataError(f"{path}: arrays are {', '.join(file.names)}, expected X and y.")
        return arrays([file.read(str(name)) for name in found], str(path))


def _read_table(path: Path) -> Arrays:
    text = decoded(read_content(path), str(path))
    rows = [(number, row) for number, row in _rows(path, text) if any(map(str.strip, row))]
    if rows and not _numbers(rows[0][1][:-1]):
        rows = rows[1:]  # a header
    if not rows:
        raise DataError(f"{path}: empty, no example in it. Give a row for each, the target in its last column.")
    width = len(rows[0][1])
    inputs = []
    for number, row in rows:
        found = _numbers(row[:-1])
        if len(row) != width or width < 2 or not found:
            shown = ",".join(row)[:40]
            raise DataError(f"{path}, line {number}: {shown!r}, expected {max(width - 1, 1)} numbers and a target.")
        inputs.append(found)
    targets = [row[-1].strip() for _, row in rows]
    numbers = _numbers(targets)
    whole = numbers and all(value.is_integer() for value in numbers)
    y = np.array([int(value) for value in numbers]) if whole else np.array(numbers or targets)
    return arrays((np.array(inputs), y), str(path))


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Each row of a table with the number of its last line."""
    table = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in table:
            yield table.line_num, row
    except csv.Error as error:
        raise DataError(
            f"{path}, line {table.line_num}: {one_line(error)}. Look for a quotation mark that is not closed."
        ) from None


def _numbers(cells: list[str]) -> list[float]:
    """All cells as finite numbers; none where one is something else."""
    try:
        found = [float(cell) for cell in cells]
    except ValueError:
        return []
    return found if all(math.isfinite(value) for value in found) else []
