"""Graphs as two tables of comma-separated values in a folder.

`nodes.csv` has a header: `node`, then `label` and `split` if there are any, then the features: numbers, or texts, which
become a column of 0 and 1 for each category. Without any, nodes are one-hot. `edges.csv` has a header `source,target`
or `source,target,weight`, and its edges count both ways; under `from,to` they count one way.

    node,label,split,age,city             source,target
    ann,red,train,31,Rome                 ann,bob
    bob,,,28,Paris                        bob,carl
"""

import csv
import io
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from porism.errors import DataError, nearest, one_line, shown
from porism.layers.gcn import Graph
from porism.tasks.blocks.download import read_content
from porism.tasks.blocks.texts import decoded
from porism.tasks.graphs.data.columns import FeatureColumn, encode, infer_columns
from porism.tasks.graphs.data.columns import number as to_number
from porism.tasks.graphs.data.edge_list import graph_of
from porism.tasks.graphs.data.labelled_graph import SPLITS, UNKNOWN, LabelledGraph, one_hot_features
from porism.tasks.graphs.data.npz import sparse_if_few

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

NODES, EDGES = "nodes.csv", "edges.csv"
MOST_COMPARED, LONGEST_NAME = 2000, 100
"""Limits of the search for a name similar to an unknown one."""
Row = tuple[str, dict[str, str]]
"""File and line, for messages, and its cells by the names of the columns."""


def read_tables(folder: Path, columns: Sequence[FeatureColumn] | None = None) -> LabelledGraph:
    """The graph of a folder with nodes.csv and edges.csv. Nodes are numbered in the order of their file.

    columns: the features that a model was trained on, which this graph must have, too.
    """
    header, rows = _read(folder / NODES, ("node",))
    names = [name for name in header if name not in ("node", "label", "split")]
    if columns is not None:
        names = _same_columns(folder / NODES, names, [column.name for column in columns])
    number: dict[str, int] = {}
    locations: list[str] = []
    features: list[list[str]] = []
    labels: list[str] = []
    splits: dict[str, list[int]] = {}
    for where, cells in rows:
        if cells["node"] in number:
            raise DataError(f"{where}: node {shown(cells['node'])} a second time. Every node has one line.")
        number[cells["node"]] = len(number)
        locations.append(where)
        features.append([cells[name] for name in names])
        labels.append(cells.get("label", ""))
        if split := cells.get("split", ""):
            if split not in SPLITS:
                raise DataError(f"{where}: there is no split {shown(split)}. {nearest(split, SPLITS)}")
            splits.setdefault(split, []).append(number[cells["node"]])
    if not number:
        raise DataError(f"{folder / NODES}: no node in it. Give a line for each.")
    if splits and (missing := [split for split in SPLITS if split not in splits]):
        raise DataError(f"{folder / NODES}: no node in the split {missing[0]}. Name all three, or none.")
    classes = tuple(sorted(set(labels) - {""}))
    known = {name: index for index, name in enumerate(classes)}
    found = infer_columns(names, locations, features) if columns is None else tuple(columns)
    return LabelledGraph(
        name=str(folder),
        graph=_graph(folder / EDGES, number),
        features=(
            sparse_if_few(torch.tensor(encode(found, locations, features))) if found else one_hot_features(len(number))
        ),
        labels=torch.tensor([known.get(label, UNKNOWN) for label in labels]),
        classes=classes,
        splits={split: torch.tensor(members) for split, members in splits.items()},
        split_name="as the file says" if splits else "",
        own_features=True,
        names=tuple(number),
        columns=found,
    )


def _same_columns(path: Path, found: list[str], expected: list[str]) -> list[str]:
    """The columns of the training in its order, or one line about the one that is missing or too many."""
    for name, have, lack in (
        *((name, "no", "was trained on it") for name in expected if name not in found),
        *((name, "a", "was trained without it") for name in found if name not in expected),
    ):
        raise DataError(f"{path}, line 1: {have} column {shown(name)}, and the model {lack}. Give the same columns.")
    return expected


def _graph(path: Path, number: dict[str, int]) -> Graph:
    header, rows = _read(path, ())
    directed = header[:2] == ["from", "to"]
    if not directed and header[:2] != ["source", "target"]:
        raise DataError(
            f"{path}, line 1: {shown(','.join(header))}, expected source,target for edges that count both ways, or "
            "from,to."
        )
    edges: dict[tuple[int, int], float] = {}
    for where, cells in rows:
        ends = []
        for end in header[:2]:
            if cells[end] not in number:
                raise DataError(
                    f"{where}: there is no node {shown(cells[end])} in {NODES}. {_suggestion(cells[end], number)}"
                )
            ends.append(number[cells[end]])
        weight = to_number(cells["weight"], where, "weight") if "weight" in header else 1.0
        one, other = ends
        # A repeated edge, or one in both directions, is one edge: the last line counts.
        edges[one, other] = weight
        if not directed:
            edges[other, one] = weight
    pairs = np.array([*edges], dtype=np.int64).reshape(-1, 2).T
    return graph_of(str(path), pairs, len(number), np.array([*edges.values()]) if "weight" in header else None)


def _suggestion(name: str, number: dict[str, int]) -> str:
    """A name to try, where there are not too many to compare with."""
    close = get_close_matches(name[:LONGEST_NAME], number, n=1, cutoff=0.5) if len(number) <= MOST_COMPARED else []
    return f"Did you mean {shown(close[0])}?" if close else f"It names {len(number):,} others. Add a line for it."


def _read(path: Path, required: tuple[str, ...]) -> tuple[list[str], Iterator[Row]]:
    text = decoded(read_content(path), str(path))
    table = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(_cells(table, path), [])]
    if not header:
        raise DataError(f"{path}: empty. Its first line names the columns.")
    if lacking := [name for name in required if name not in header]:
        raise DataError(
            f"{path}, line 1: no column {lacking[0]!r} among {shown(', '.join(header))[1:-1]}. Name it there."
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise DataError(f"{path}, line 1: two columns are called {shown(twice[0])}. Give each a name of its own.")

    def rows() -> Iterator[Row]:
        for cells in _cells(table, path):
            where = f"{path}, line {table.line_num}"
            if cells and len(cells) != len(header):
                raise DataError(f"{where}: {len(cells)} cells, expected {len(header)}, one for each column.")
            if cells:
                yield where, dict(zip(header, (cell.strip() for cell in cells), strict=True))

    return header, rows()


def _cells(table: "CsvReader", path: Path) -> Iterator[list[str]]:
    """Line by line; a line that cannot be parsed is reported."""
    try:
        yield from table
    except csv.Error as error:
        raise DataError(
            f"{path}, line {table.line_num}: {one_line(error)}. Look for a quotation mark that is not closed."
        ) from None
