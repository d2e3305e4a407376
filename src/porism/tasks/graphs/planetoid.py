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

from porism.errors import DataError
from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.csr import Csr
from porism.tasks.download import COMPRESSED, DataSet, PublicFile, fetch, read_content
from porism.tasks.graphs.labelled import UNKNOWN, LabelledGraph
from porism.tasks.graphs.pickled import SparseMatrix, read_pickle

PARTS = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")
VALIDATION_NODES = 500
URL = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"

PUBLIC = {
    "cora": DataSet(
        about="2,708 papers on machine learning and their citations, words as features, 7 classes",
        licence="MIT",
        files={
            part: PublicFile(f"planetoid/ind.cora.{part}", f"{URL}/ind.cora.{part}", sha256)
            for part, sha256 in {
                "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
                "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
                "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
                "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
                "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
                "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
                "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
                "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
            }.items()
        },
    ),
    "citeseer": DataSet(
        about="3,327 papers on computer science and their citations, words as features, 6 classes",
        licence="MIT",
        files={
            part: PublicFile(f"planetoid/ind.citeseer.{part}", f"{URL}/ind.citeseer.{part}", sha256)
            for part, sha256 in {
                "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
                "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
                "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
                "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
                "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
                "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
                "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
                "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
            }.items()
        },
    ),
}

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
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("ind.*")):
        plain = path.with_suffix("").name if path.suffix in COMPRESSED else path.name
        _, name, part = (plain + "..").split(".", 2)
        found.setdefault(name, {})[part.rstrip(".")] = path
    return found


def read_planetoid(files: dict[str, Path], name: str) -> LabelledGraph:
    """The graph with the public split: the labelled nodes train, the 500 after them validate, the test nodes test."""
    if missing := [part for part in PARTS if part not in files]:
        folder = next(iter(files.values())).parent
        raise DataError(f"{folder}: no file ind.{name}.{missing[0]}. Planetoid's graphs come as {', '.join(PARTS)}.")
    test = _test_numbers(files["test.index"])
    neighbours = read_pickle(files["graph"])
    before, features = read_pickle(files["allx"]), read_pickle(files["tx"])
    labels_before, labels = read_pickle(files["ally"]), read_pickle(files["ty"])
    labelled = len(read_pickle(files["y"]))
    start, nodes = len(labels_before), max(len(neighbours), int(test.max()) + 1)
    _check_sizes(files, before, features, labels_before, labels, test)
    x = _features(before, features, test, nodes)
    classes = torch.full((nodes,), UNKNOWN)
    for place, one_hot in ((np.arange(start), labels_before), (test, labels)):
        # A node of no class has a row of zeros.
        known = torch.from_numpy(np.where(one_hot.any(1), one_hot.argmax(1), UNKNOWN))
        classes[torch.from_numpy(place)] = known
    splits = {
        "train": torch.arange(labelled),
        "valid": torch.arange(labelled, min(labelled + VALIDATION_NODES, start)),
        "test": torch.from_numpy(np.sort(test)),
    }
    names = CLASSES.get(name, tuple(f"class {number}" for number in range(labels.shape[1])))
    return LabelledGraph(name, _graph(neighbours, nodes, files["graph"]), x, classes, names, splits, "public")


def _graph(neighbours: dict[int, list[int]], nodes: int, path: Path) -> Graph:
    """Both ways, each pair once and no loops, of which the files have a few."""
    pairs = np.array([(one, other) for one, others in neighbours.items() for other in others], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    if outside := [node for node in pairs.ravel() if not 0 <= node < nodes]:
        raise DataError(f"{path}: an edge names node {outside[0]}, and nodes are numbered 0 to {nodes - 1}.")
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return Graph.from_edges(torch.from_numpy(both.T.copy()), nodes)


def _features(before: SparseMatrix, tests: SparseMatrix, test: NDArray[np.int64], nodes: int) -> SparseFeatures:
    """One matrix for all nodes: those before the test, then each test node in its place, then none for the gaps."""
    widths = np.zeros(nodes, dtype=np.int64)
    widths[: before.shape[0]] = np.diff(before.starts)
    widths[test] = np.diff(tests.starts)
    order = np.argsort(test)
    pieces = [(tests.starts[place], tests.starts[place + 1]) for place in order]
    columns = [before.columns, *(tests.columns[first:last] for first, last in pieces)]
    values = [before.values, *(tests.values[first:last] for first, last in pieces)]
    starts = torch.from_numpy(np.concatenate([[0], np.cumsum(widths)]))
    there = Csr(
        starts, torch.from_numpy(np.concatenate(columns)).int(), torch.from_numpy(np.concatenate(values)).float()
    )
    return SparseFeatures(there, before.shape[1])


def _test_numbers(path: Path) -> NDArray[np.int64]:
    numbers = []
    for line, text in enumerate(read_content(path).decode(errors="replace").splitlines(), 1):
        if not text.strip().isdigit():
            raise DataError(f"{path}, line {line}: {text!r} is no node's number. Give one number a line.")
        numbers.append(int(text))
    if not numbers:
        raise DataError(f"{path}: empty, no test node in it. Get the file again.")
    return np.array(numbers)


def _check_sizes(
    files: dict[str, Path],
    before: SparseMatrix,
    tests: SparseMatrix,
    labels_before: NDArray[Any],
    labels: NDArray[Any],
    test: NDArray[np.int64],
) -> None:
    for part, found, wanted in (
        ("ally", len(labels_before), before.shape[0]),
        ("tx", tests.shape[0], len(test)),
        ("ty", len(labels), len(test)),
    ):
        if found != wanted:
            raise DataError(f"{files[part]}: {found} rows, wanted {wanted}, one for each node. Get the files again.")
    if test.min() < before.shape[0]:
        raise DataError(
            f"{files['test.index']}: test node {test.min()} is among the {before.shape[0]} nodes of allx. "
            "Get the files again."
        )
