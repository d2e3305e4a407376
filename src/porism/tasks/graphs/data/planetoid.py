"""Planetoid's files: Cora, Citeseer and PubMed as `ind.NAME.x`, `.tx`, `.allx`, `.y`, `.ty`, `.ally`, `.graph` and
`.test.index`.

`allx` holds the nodes outside the test, in order; `tx` those of the test, in the order in which `test.index` numbers
them. Citeseer's test numbers have gaps: isolated nodes without features. They are filled in, as everybody does: no
feature, no label, so that they count nowhere but in N.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError, shown
from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.blocks.download import COMPRESSED, fetch, read_content
from porism.tasks.graphs.catalogue import PUBLIC
from porism.tasks.graphs.data.edge_list import graph_of
from porism.tasks.graphs.data.labelled_graph import UNKNOWN, LabelledGraph
from porism.tasks.graphs.data.pickled import read_pickle
from porism.tasks.graphs.data.sparse import SparseMatrix

PARTS = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")
VALIDATION_NODES = 500
MOST_DIGITS = 18
MOST_GAPS = 2
"""Nodes for each that has features. Citeseer has 3,327 for 3,312."""

CLASSES = {
    "cora": (
        *("theory", "reinforcement learning", "genetic algorithms", "neural networks"),
        *("probabilistic methods", "case-based", "rule learning"),
    ),
    "citeseer": ("AI", "machine learning", "information retrieval", "databases", "agents", "human and computer"),
}
"""In the order of the files, which do not name them: known by how many papers each has."""


def read_public(name: str) -> LabelledGraph:
    """A public graph from the data folder, fetched first where it is not there."""
    return read_planetoid({part: fetch(file) for part, file in PUBLIC[name].files.items()}, name)


def planetoid_files(folder: Path) -> dict[str, dict[str, Path]]:
    """The parts of each graph that a folder holds, plain or compressed, by the graph's name."""
    graphs: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("ind.*")):
        plain = path.with_suffix("").name if path.suffix in COMPRESSED else path.name
        _, name, part = (plain + "..").split(".", 2)
        graphs.setdefault(name, {})[part.rstrip(".")] = path
    return graphs


def read_planetoid(files: dict[str, Path], name: str) -> LabelledGraph:
    """The graph with the public split: the labelled nodes train, the 500 after them validate, the test nodes test."""
    if missing := [part for part in PARTS if part not in files]:
        folder = next(iter(files.values())).parent
        raise DataError(f"{folder}: no file ind.{name}.{missing[0]}. Planetoid's graphs come as {', '.join(PARTS)}.")
    matrices = {part: _matrix(files[part]) for part in ("allx", "tx", "x")}
    one_hot = {part: _one_hot(files[part]) for part in ("ally", "ty", "y")}
    test = _test_nodes(files["test.index"])
    _check_shapes(files, matrices, one_hot, test)
    neighbours = _neighbours(files["graph"])
    start, nodes = matrices["allx"].shape[0], max(len(neighbours), int(test.max()) + 1)
    labels = torch.full((nodes,), UNKNOWN)
    for members, rows in ((np.arange(start), one_hot["ally"]), (test, one_hot["ty"])):
        # A node of no class has a row of zeros.
        numbers = np.where(rows.any(1), rows.argmax(1), UNKNOWN)
        labels[torch.from_numpy(members)] = torch.from_numpy(numbers)
    labelled, count = one_hot["y"].shape
    splits = {
        "train": torch.arange(labelled),
        "valid": torch.arange(labelled, min(labelled + VALIDATION_NODES, start)),
        "test": torch.from_numpy(np.sort(test)),
    }
    known = CLASSES.get(name, ())
    classes = known if len(known) == count else tuple(f"class {number}" for number in range(count))
    x = _features(matrices["allx"], matrices["tx"], test, nodes)
    return LabelledGraph(name, _graph(neighbours, nodes, files["graph"]), x, labels, classes, splits, "public")


def _graph(neighbours: dict[int, list[int]], nodes: int, path: Path) -> Graph:
    """Both ways, each pair once and no loops, of which the files have a few."""
    for node, others in neighbours.items():
        if outside := [number for number in (node, *others) if not 0 <= number < nodes]:
            raise DataError(f"{path}: an edge names node {shown(outside[0])}, and nodes are numbered 0 to {nodes - 1}.")
    pairs = np.array([(one, other) for one, others in neighbours.items() for other in others], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return graph_of(str(path), both.T, nodes)


def _features(others: SparseMatrix, tests: SparseMatrix, test: NDArray[np.int64], nodes: int) -> SparseFeatures:
    """One matrix for all nodes: the others first, then each test node at its own number, and empty rows in the gaps."""
    lengths = np.zeros(nodes, dtype=np.int64)
    lengths[: others.shape[0]] = np.diff(others.starts)
    lengths[test] = np.diff(tests.starts)
    rows = [slice(tests.starts[row], tests.starts[row + 1]) for row in np.argsort(test)]
    columns = np.concatenate([others.columns, *(tests.columns[row] for row in rows)])
    values = np.concatenate([others.values, *(tests.values[row] for row in rows)])
    whole = SparseMatrix(values, columns, np.concatenate([[0], np.cumsum(lengths)]), (nodes, others.shape[1]))
    return SparseFeatures(whole.csr(), others.shape[1])


def _matrix(path: Path) -> SparseMatrix:
    content = read_pickle(path)
    if not isinstance(content, SparseMatrix):
        raise _swapped(path, content, "a sparse matrix of features")
    return content


def _one_hot(path: Path) -> NDArray[Any]:
    """Labels (rows, classes): 1 in the column of the class, no 1 where it is unknown."""
    content = read_pickle(path)
    if not isinstance(content, np.ndarray) or content.ndim != 2 or not content.size:
        raise _swapped(path, content, "an array (nodes, classes) of labels")
    if not np.isin(content, (0, 1)).all() or (content.sum(1) > 1).any():
        raise DataError(f"{path}: a node has more than one class, expected 0 everywhere but a single 1. Mend its row.")
    return content


def _neighbours(path: Path) -> dict[int, list[int]]:
    content = read_pickle(path)
    is_graph = isinstance(content, dict) and all(
        type(node) is int and isinstance(others, list) and all(type(other) is int for other in others)
        for node, others in content.items()
    )
    if not is_graph or not content:
        raise _swapped(path, content, "a dictionary from a node's number to a list of numbers")
    return content  # type: ignore[no-any-return]


def _swapped(path: Path, content: Any, expected: str) -> DataError:
    kind = f"an array {content.shape}" if isinstance(content, np.ndarray) else f"a {type(content).__name__}"
    return DataError(f"{path}: holds {kind}, expected {expected}. Check whether two files are swapped.")


def _test_nodes(path: Path) -> NDArray[np.int64]:
    numbers: dict[int, int] = {}
    for line, text in enumerate(read_content(path).decode(errors="replace").split("\n"), 1):
        digits = text.strip()
        if not digits:
            continue
        if not (digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS):
            raise DataError(f"{path}, line {line}: {shown(text)} is no node's number. Give one number a line.")
        if int(digits) in numbers:
            raise DataError(f"{path}, line {line}: node {digits} is there already, in line {numbers[int(digits)]}.")
        numbers[int(digits)] = line
    if not numbers:
        raise DataError(f"{path}: empty, no test node in it. Get the file again.")
    return np.array([*numbers])


def _check_shapes(
    files: dict[str, Path],
    matrices: dict[str, SparseMatrix],
    one_hot: dict[str, NDArray[Any]],
    test: NDArray[np.int64],
) -> None:
    shapes: dict[str, tuple[int, ...]] = {part: matrix.shape for part, matrix in matrices.items()}
    shapes |= {part: array.shape for part, array in one_hot.items()}
    rows = {part: shape[0] for part, shape in shapes.items()}
    for part, count in (("ally", rows["allx"]), ("tx", len(test)), ("ty", len(test)), ("x", rows["y"])):
        if rows[part] != count:
            raise DataError(
                f"{files[part]}: {rows[part]} rows, expected {count}, one for each node. Get the files again."
            )
    if rows["y"] > rows["ally"]:
        raise DataError(f"{files['y']}: {rows['y']} rows, and ally has {rows['ally']}. Training nodes are among those.")
    for part, other in (("tx", "allx"), ("x", "allx"), ("ty", "ally"), ("y", "ally")):
        if shapes[part][1] != shapes[other][1]:
            raise DataError(f"{files[part]}: {shapes[part][1]} columns, expected {shapes[other][1]}, as in {other}.")
    given = rows["allx"] + rows["tx"]
    if test.min() < rows["allx"]:
        raise DataError(
            f"{files['test.index']}: test node {test.min()} is among the {rows['allx']} nodes of allx. "
            "Get the files again."
        )
    if test.max() >= MOST_GAPS * given:
        raise DataError(
            f"{files['test.index']}: test node {test.max()}, and features are there for {given} nodes. "
            "Get the files again."
        )
