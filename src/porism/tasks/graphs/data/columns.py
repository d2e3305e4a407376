"""Columns of a table as features: numbers as they are, a text as a column for each of its categories.

>>> columns = infer_columns(["age", "city"], ["line 2", "line 3"], [["31", "Rome"], ["28", "Paris"]])
>>> columns
(FeatureColumn(name='age', categories=None), FeatureColumn(name='city', categories=('Paris', 'Rome')))
>>> encode(columns, ["line 2"], [["31", "Rome"]])
[[31.0, 0.0, 1.0]]
"""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from porism.errors import DataError, shown

MOST_CATEGORIES = 1000
"""Different texts in one column: more are no categories."""


class FeatureColumn(NamedTuple):
    """A column's name, and its categories where it holds texts."""

    name: str
    categories: tuple[str, ...] | None = None


def infer_columns(
    names: Sequence[str], locations: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[FeatureColumn, ...]:
    """What the columns hold. One with numbers and texts is refused, with the line of the first that is no number."""
    return tuple(_column(name, locations, [row[index] for row in rows]) for index, name in enumerate(names))


def _column(name: str, locations: Sequence[str], cells: Sequence[str]) -> FeatureColumn:
    texts = [cell for cell in cells if cell]
    if not texts or any(_is_number(cell) for cell in texts):
        for location, cell in zip(locations, cells, strict=True):
            number(cell, location, name)
        return FeatureColumn(name)
    categories = tuple(sorted(set(texts)))
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{locations[0]}: {name} has {len(categories):,} different texts, expected at most {MOST_CATEGORIES:,} "
            "categories. Leave the column out, or group them."
        )
    return FeatureColumn(name, categories)


def encode(
    columns: Sequence[FeatureColumn], locations: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[list[float]]:
    """The features of each row: a number, or one of several that is 1. An empty text has none that is."""
    indices = [None if column.categories is None else _index(column.categories) for column in columns]
    features = []
    for location, row in zip(locations, rows, strict=True):
        values: list[float] = []
        for column, index, cell in zip(columns, indices, row, strict=True):
            if index is None:
                values.append(number(cell, location, column.name))
                continue
            if cell and cell not in index:
                known = shown(", ".join(index))[1:-1]
                raise DataError(f"{location}: {column.name} is {shown(cell)}, expected one that training had: {known}.")
            one_hot = [0.0] * len(index)
            if cell:
                one_hot[index[cell]] = 1.0
            values += one_hot
        features.append(values)
    return features


def number(text: str, where: str, column: str) -> float:
    """The number of a cell, or one line that says there is none."""
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise DataError(f"{where}: {column} is {shown(text)}, expected a number.")
    return found


def _is_number(text: str) -> bool:
    """Whether Python reads it as a number, infinite or none too: what is meant for a number is never a category."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _index(categories: Sequence[str]) -> dict[str, int]:
    return {category: location for location, category in enumerate(categories)}
