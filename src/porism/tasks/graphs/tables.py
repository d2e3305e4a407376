"""Graphs as two tables of comma-separated values in a folder.

`nodes.csv` has a head: `node`, then `label` and `split` if there are any, then the features. `edges.csv` has a head
`source,target` or `source,target,weight`, and its edges count both ways; under `from,to` they count one way.

    node,label,split,age,score            source,target
    ann,red,train,31,0.5                  ann,bob
    bob,,,28,0.1                          bob,carl
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import torch

from porism.errors import DataError
from porism.layers.gcn import Graph
from porism.tasks.download import read_content
from porism.tasks.graphs.labelled import SPLITS, UNKNOWN, LabelledGraph
from porism.tasks.graphs.npz import thinned
from porism.train.recipe import nearest

NODES, EDGES = "nodes.csv", "edges.csv"
Row = tuple[str, dict[str, str]]
"""Where it stands, for messages, and its cells by the head's names."""


def read_tables(folder: Path) -> LabelledGraph:
    """The graph of a folder with nodes.csv and edges.csv. Nodes are numbered in the order of their file."""
    head, rows = _read(folder / NODES, ("node",))
    names = [name for name in head if name not in ("node", "label", "split")]
    if not names:
        raise DataError(f"{folder / NODES}: no features, only {', '.join(head)}. Add a column of numbers for each.")
    number: dict[str, int] = {}
    features: list[list[float]] = []
    labels: list[str] = []
    splits: dict[str, list[int]] = {}
    for where, cells in rows:
        if cells["node"] in number:
            raise DataError(f"{where}: node {cells['node']!r} a second time. Every node has one line.")
        number[cells["node"]] = len(number)
        features.append([_number(cells[name], where, name) for name in names])
        labels.append(cells.get("label", ""))
        if split := cells.get("split", ""):
            if split not in SPLITS:
                raise DataError(f"{where}: there is no split {split!r}. {nearest(split, SPLITS)}")
            splits.setdefault(split, []).append(number[cells["node"]])
    if not number:
        raise DataError(f"{folder / NODES}: no node in it. Give a line for each.")
    if splits and (missing := [split for split in SPLITS if split not in splits]):
        raise DataError(f"{folder / NODES}: no node in the split {missing[0]}. Name all three, or none.")
    classes = tuple(sorted(set(labels) - {""}))
    known = {name: place for place, name in enumerate(classes)}
    return LabelledGraph(
        name=str(folder),
        graph=_graph(folder / EDGES, number),
        features=thinned(torch.tensor(features)),
        labels=torch.tensor([known.get(label, UNKNOWN) for label in labels]),
        classes=classes,
        splits={split: torch.tensor(members) for split, members in splits.items()},
        split_name="as the file says" if splits else "",
    )


def _graph(path: Path, number: dict[str, int]) -> Graph:
    head, rows = _read(path, ())
    directed = head[:2] == ["from", "to"]
    if not directed and head[:2] != ["source", "target"]:
        raise DataError(
            f"{path}, line 1: {','.join(head)!r}, wanted source,target for edges that count both ways, or from,to."
        )
    edges: dict[tuple[int, int], float] = {}
    for where, cells in rows:
        ends = []
        for end in head[:2]:
            if cells[end] not in number:
                raise DataError(
                    f"{where}: there is no node {cells[end]!r} in {NODES}. {nearest(cells[end], [*number])}"
                )
            ends.append(number[cells[end]])
        weight = _number(cells["weight"], where, "weight") if "weight" in head else 1.0
        one, other = ends
        # An edge that is there twice, or once each way, is one edge: the last line counts.
        edges[one, other] = weight
        if not directed:
            edges[other, one] = weight
    pairs = torch.tensor([*edges], dtype=torch.int64).view(-1, 2).T
    weights = torch.tensor([*edges.values()]) if "weight" in head else None
    return Graph.from_edges(pairs, len(number), weights)


def _read(path: Path, wanted: tuple[str, ...]) -> tuple[list[str], Iterator[Row]]:
    try:
        lines = read_content(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8. Give a text file.") from None
    if not lines:
        raise DataError(f"{path}: empty. Its first line names the columns.")
    table = csv.reader(lines)
    head = [name.strip() for name in next(table)]
    if lacking := [name for name in wanted if name not in head]:
        raise DataError(f"{path}, line 1: no column {lacking[0]!r} among {', '.join(head)}. Name it there.")

    def rows() -> Iterator[Row]:
        for cells in table:
            where = f"{path}, line {table.line_num}"
            if cells and len(cells) != len(head):
                raise DataError(f"{where}: {len(cells)} cells, wanted {len(head)}, one for each column of the head.")
            if cells:
                yield where, dict(zip(head, (cell.strip() for cell in cells), strict=True))

    return head, rows()


def _number(text: str, where: str, column: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise DataError(f"{where}: {column} is {text!r}, wanted a number.")
    return number
