"""Inputs and targets from a file: an .npz with X and y, or a .csv whose last column is the target.

Every row of a table has a target. All targets are numbers, or none is: a word among numbers, or a number among words,
is refused with its line, since it is a missing or a mistyped value more often than a class. The first row is a header
where none of its inputs is a number, and not all of them are missing.
"""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from porism.errors import DataError, one_line, shown
from porism.tasks.blocks.arrays import open_npz
from porism.tasks.blocks.download import COMPRESSED, read_content
from porism.tasks.blocks.in_memory import Arrays, arrays
from porism.tasks.blocks.tables import most_frequent_separator
from porism.tasks.blocks.texts import decoded

INPUTS, TARGETS = ("X", "x", "data", "features"), ("y", "target", "targets", "labels")


MISSING = ("", "?", "-", ".", "na", "n/a", "nan", "null", "none")
"""How tables write a number that is not there, in lower case."""
CLASS_LIMIT = 2.0**63
"""Classes are numbers of 64 bits, below this."""


class FileExamples(NamedTuple):
    """The examples of a file, and the names of its columns where it has a header."""

    examples: Arrays
    header: tuple[str, ...] = ()


def read_examples(path: Path, *, of_classes: bool = False) -> FileExamples:
    """The examples of a file. Errors give its name, and the line of a table.

    of_classes: whether targets are classes.
    """
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise DataError(f"{path}: {found}, expected an .npz with X and y, or a .csv whose last column is the target.")
    kind = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if kind == ".npz":
        return FileExamples(_read_npz(path))
    if kind in (".csv", ".txt"):
        return _read_table(path, of_classes)
    raise DataError(f"{path}: a {path.suffix or 'file without an ending'}, expected an .npz or a .csv.")


def _read_npz(path: Path) -> Arrays:
    with open_npz(path) as file:
        found = [next((name for name in names if name in file.names), None) for names in (INPUTS, TARGETS)]
        if None in found:
            raise DataError(f"{path}: arrays are {', '.join(file.names)}, expected X and y.")
        return arrays([file.read(str(name)) for name in found], str(path))


def _read_table(path: Path, of_classes: bool) -> FileExamples:
    text = decoded(read_content(path), str(path))
    separator = _separator(path, text)
    rows = [(number, row) for number, row in _rows(path, text, separator) if any(map(str.strip, row))]
    header: tuple[str, ...] = ()
    if rows and _is_header(rows[0][1]):
        header, rows = tuple(cell.strip() for cell in rows[0][1]), rows[1:]
    if not rows:
        raise DataError(f"{path}: empty, no example in it. Give a row for each, the target in its last column.")
    width = len(rows[0][1])
    inputs = []
    for number, row in rows:
        found = _numbers(row[:-1])
        if len(row) != width or width < 2 or not found:
            expected = max(width - 1, 1)
            numbers = f"{expected} number{'s' * (expected > 1)} and a target"
            raise DataError(
                f"{path}, line {number}: {separator.join(row)[:40]!r}, expected {numbers}.{_hint(row, separator)}"
            )
        inputs.append(found)
    return FileExamples(arrays((np.array(inputs), _targets(path, rows, of_classes)), str(path)), header)


def _hint(row: list[str], separator: str) -> str:
    """What to do with a row that is separated, or has numbers that are written, in another way."""
    if separator == "," and ";" in "".join(row):
        return " The first row is separated by commas: separate all rows alike."
    return " Write numbers with a point, such as 1.5." if "," in "".join(row[:-1]) else ""


def _separator(path: Path, text: str) -> str:
    """A comma where it separates numbers in the first row, else what that row has most of."""
    first = next((row for _, row in _rows(path, text, ",") if any(map(str.strip, row))), [])
    line = ",".join(first)
    for separator in (";", "\t"):
        if _numbers(line.replace(",", ".").split(separator)[:-1]):
            return separator  # also of 1,5, which is refused with its line: by commas it would be two other numbers
    return "," if _numbers(first[:-1]) else most_frequent_separator(line)


def _is_header(row: list[str]) -> bool:
    cells = [cell.strip().lower().replace(",", ".") for cell in row[:-1]]
    return not any(map(_is_number, cells)) and not all(cell in MISSING for cell in cells)


def _targets(path: Path, rows: list[tuple[int, list[str]]], of_classes: bool) -> np.ndarray:
    """The last cells of all rows: numbers, whole ones where all are, or words."""
    cells = [row[-1].strip() for _, row in rows]
    lines = [number for number, _ in rows]
    for line, cell in zip(lines, cells, strict=True):
        if not cell:
            raise DataError(f"{path}, line {line}: no target in the last column. Give it one, or leave the row out.")
        if _is_number(cell) and not math.isfinite(float(cell)):
            raise DataError(
                f"{path}, line {line}: target {shown(cell)}, expected a finite number or a word. Put it right, or "
                "leave the row out."
            )
    are_numbers = [_is_number(cell) for cell in cells]
    if not any(are_numbers):
        return np.array(cells)
    if not all(are_numbers):
        most = 2 * sum(are_numbers) >= len(cells)
        odd = are_numbers.index(not most)
        kinds = ("a word", "numbers") if most else ("a number", "words")
        count = max(sum(are_numbers), len(cells) - sum(are_numbers))
        raise DataError(
            f"{path}, line {lines[odd]}: target {shown(cells[odd])} is {kinds[0]}, and {count} of {len(cells)} targets "
            f"are {kinds[1]}. Put it right, or write all classes as words, such as c1."
        )
    values = [float(cell) for cell in cells]
    if of_classes and (far := [place for place, value in enumerate(values) if abs(value) >= CLASS_LIMIT]):
        raise DataError(
            f"{path}, line {lines[far[0]]}: class {shown(cells[far[0]])}, expected a whole number from 0 on, of at "
            "most 64 bits. Number the classes anew, or write them as words."
        )
    if all(value.is_integer() and abs(value) < CLASS_LIMIT for value in values):
        return np.array([int(value) for value in values])
    return np.array(values)


def _rows(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each row of a table with the number of its last line."""
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
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


def _is_number(cell: str) -> bool:
    """Whether Python reads a cell as a number, nan and inf too."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
