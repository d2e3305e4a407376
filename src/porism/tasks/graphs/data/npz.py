"""Graphs in `.npz` files, as numpy writes them.

Edges are an array `edge_index` (2, E), each from the first row to the second, with `edge_weight` (E) if they have
weights; or a sparse matrix as `adj_data`, `adj_indices`, `adj_indptr`, in which a stored 0 is no edge. Features are
`features` or `x` (N, D), or sparse as `attr_data`, `attr_indices`, `attr_indptr`, `attr_shape`. Labels are `labels` or
`y` (N), -1 where unknown, with `class_names` if they have names, and `train_mask`, `valid_mask` (or `val_mask`) and
`test_mask` (N) a split, if there is one. No node is in two of them. Dense features may stay in the file (`mapped.py`),
and so may edges that are a sparse matrix (`mapped_graph.py`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError, advise, fields
from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.blocks.arrays import Npz, open_npz
from porism.tasks.blocks.labels import whole_labels
from porism.tasks.blocks.mapped_array import MappedArray
from porism.tasks.blocks.memory import check_fits
from porism.tasks.graphs.data.edge_list import MEMORY_EACH, graph_of
from porism.tasks.graphs.data.labelled_graph import SPARSE_BELOW, UNKNOWN, Features, LabelledGraph, numbered_classes
from porism.tasks.graphs.data.mapped import MIB, MappedFeatures
from porism.tasks.graphs.data.mapped_graph import MappedGraph
from porism.tasks.graphs.data.sparse import sparse_matrix

Arrays = Mapping[str, NDArray[Any]]
MASKS = {"train": ("train_mask",), "valid": ("valid_mask", "val_mask"), "test": ("test_mask",)}
DENSE = ("features", "x")
EDGES = ("adj_indices", "adj_data")
"""Of as many numbers as there are edges."""
SPARSE = ("data", "indices", "indptr", "shape")
KNOWN = {
    *("edge_index", "edge_weight", "features", "x", "labels", "y", "class_names"),
    *(f"{matrix}_{part}" for matrix in ("adj", "attr") for part in SPARSE),
    *(name for names in MASKS.values() for name in names),
}
"""Names of arrays. Other arrays of a file are ignored."""


def read_npz(path: Path, most_mib: int | None = None) -> LabelledGraph:
    """The graph of a file. Without labels every node's class is unknown.

    most_mib: dense features and edges that would take more, each by itself, stay in the file.
    """
    with open_npz(path) as file:
        mapped = edges = None
        if most_mib is not None:
            _check_sparse(file, most_mib)
            mapped, edges = _mapped(file, most_mib), _mapped_edges(file, most_mib)
        left_out = (*(DENSE if mapped else ()), *(EDGES if edges else ()))
        arrays = {name: file.read(name) for name in file.names if name in KNOWN and name not in left_out}
    sums = None if mapped is None else mapped.check()
    features = _features(arrays, path) if mapped is None else mapped
    nodes = features.shape[0]
    graph = _graph(arrays, path, nodes) if edges is None else _graph_of_mapped(arrays, edges, nodes)
    labels = _labels(arrays, graph.num_nodes, path)
    classes = _classes(arrays, labels, path)
    split = _split(arrays, graph.num_nodes, path)
    return LabelledGraph(str(path), graph, features, labels, classes, own_features=True, sums=sums, **split)


def _mapped(file: Npz, most_mib: int) -> MappedFeatures | None:
    """The features in the file; None where they fit, or are stored sparse."""
    name = next((name for name in DENSE if name in file.names), None)
    if name is None or "attr_indptr" in file.names or 4 * file.size(name) <= most_mib * MIB:
        return None
    stored = file.stored(name)
    if stored is None:
        raise DataError(
            f"{file.path}: {name} would take {4 * file.size(name) / MIB:,.0f} MiB, more than "
            f"max_memory_mib={most_mib}, and cannot stay in the file: it is compressed, or has its columns first.",
            advise(
                "Write it row by row with numpy.savez, or use {}.",
                fields(max_memory_mib=_mib(4 * file.size(name))),
            ),
        )
    _check_dense(stored.shape, stored.dtype, file.path)
    return MappedFeatures(MappedArray.of(file.path, stored))


def _check_sparse(file: Npz, most_mib: int) -> None:
    """Refuse sparse features that would take more: they are read as a whole."""
    needed = 8 * file.size("attr_data") if {"attr_data", "attr_indptr"} <= set(file.names) else 0
    if needed > most_mib * MIB:
        raise DataError(
            f"{file.path}: sparse features would take {needed / MIB:,.0f} MiB, more than max_memory_mib={most_mib}, "
            "and do not stay in the file.",
            advise("Use {}, or write them as a dense array with numpy.savez.", fields(max_memory_mib=_mib(needed))),
        )


def _mapped_edges(file: Npz, most_mib: int) -> dict[str, MappedArray] | None:
    """The columns and weights of edges in the file; None where the graph fits."""
    name = next((name for name in ("edge_index", "adj_indices") if name in file.names), None)
    if name is None:
        return None
    count = file.size(name) // (2 if name == "edge_index" else 1)
    if MEMORY_EACH * count <= most_mib * MIB:
        return None
    parts = {part: file.stored(part) for part in EDGES if part in file.names}
    found = {part: MappedArray.of(file.path, stored) for part, stored in parts.items() if stored is not None}
    if name == "edge_index" or len(found) < len(parts):
        why = "edge_index is a list, which is sorted in memory" if name == "edge_index" else "it is compressed"
        raise DataError(
            f"{file.path}: a graph of {count:,} edges would take {MEMORY_EACH * count / MIB:,.0f} MiB, more than "
            f"max_memory_mib={most_mib}, and cannot stay in the file: {why}.",
            advise(
                "Write the parts of a csr_matrix, adj_indptr and adj_indices, with numpy.savez, or use {}.",
                fields(max_memory_mib=_mib(MEMORY_EACH * count)),
            ),
        )
    return found


def _mib(size: int) -> int:
    return -(-size // MIB)


def _graph_of_mapped(arrays: Arrays, edges: Mapping[str, MappedArray], nodes: int) -> MappedGraph:
    columns, path = edges["adj_indices"], edges["adj_indices"].path
    shape = arrays.get("adj_shape", np.array([nodes, nodes]))
    graph = MappedGraph.of(_required(arrays, "adj_indptr", path), columns, edges.get("adj_data"), shape)
    _check_nodes((graph.num_nodes, graph.num_nodes), nodes, path)
    return graph


def _check_nodes(shape: tuple[int, int], nodes: int, path: Path) -> None:
    if shape != (nodes, nodes):
        raise DataError(f"{path}: adj_shape is {shape}, expected {(nodes, nodes)}, as many as rows of features.")


def _check_dense(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path) -> None:
    if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
        raise DataError(f"{path}: features are {shape} of {dtype}, expected (N, D) of numbers.")


def _graph(arrays: Arrays, path: Path, nodes: int) -> Graph:
    if "edge_index" in arrays:
        return graph_of(str(path), arrays["edge_index"], nodes, arrays.get("edge_weight"))
    if "adj_indptr" not in arrays:
        raise DataError(
            f"{path}: no edges in it. Add an array edge_index (2, E), or adj_data, adj_indices, adj_indptr."
        )
    starts, columns = arrays["adj_indptr"], _required(arrays, "adj_indices", path)
    values = arrays["adj_data"] if "adj_data" in arrays else np.ones(columns.shape)
    shape = arrays.get("adj_shape", np.array([nodes, nodes]))
    matrix = sparse_matrix(str(path), values, columns, starts, shape, prefix="adj_", most_columns=nodes)
    _check_nodes(matrix.shape, nodes, path)
    # Row i holds the neighbors that send to node i.
    rows, there = np.repeat(np.arange(nodes), np.diff(matrix.starts)), matrix.values != 0
    return graph_of(str(path), np.stack([matrix.columns, rows])[:, there], nodes, matrix.values[there])


def _features(arrays: Arrays, path: Path) -> Features:
    if "attr_indptr" in arrays:
        values, columns, starts, shape = (_required(arrays, f"attr_{part}", path) for part in SPARSE)
        matrix = sparse_matrix(str(path), values, columns, starts, shape, prefix="attr_")
        return SparseFeatures(matrix.csr(), matrix.shape[1])
    features = next((arrays[name] for name in DENSE if name in arrays), None)
    if features is None:
        raise DataError(f"{path}: no features in it. Add an array features (N, D); one-hot rows, if nodes have none.")
    _check_dense(features.shape, features.dtype, path)
    check_fits(path, 3 * 4 * features.size, "features in 32 bits", advice=_SAMPLED)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return sparse_if_few(torch.from_numpy(features.astype(np.float32)))


_SAMPLED = advise(
    "Give less data, or leave features in the file and read those of a few nodes at a time: {}.",
    fields(num_neighbors=10),
)


def sparse_if_few(x: torch.Tensor) -> Features:
    """Features as they are, or as a sparse matrix where few are not zero."""
    return SparseFeatures.from_dense(x) if (x != 0).float().mean() < SPARSE_BELOW else x


def _labels(arrays: Arrays, nodes: int, path: Path) -> torch.Tensor:
    stored = next((arrays[name] for name in ("labels", "y") if name in arrays), None)
    if stored is None:
        return torch.full((nodes,), UNKNOWN)
    labels = whole_labels(str(path), stored, least=UNKNOWN)
    if len(labels) != nodes:
        raise DataError(f"{path}: {len(labels)} labels, and {nodes} rows of features. Give one for each node.")
    return torch.from_numpy(labels)


def _classes(arrays: Arrays, labels: torch.Tensor, path: Path) -> tuple[str, ...]:
    if "class_names" not in arrays:
        return numbered_classes(str(path), labels)
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise DataError(f"{path}: class_names are {names.shape} of {names.dtype}, expected one row of texts.")
    if len(names) <= int(labels.max()):
        raise DataError(f"{path}: {len(names)} class_names, and labels run to {int(labels.max())}. Name every class.")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else name for name in names.tolist())


def _split(arrays: Arrays, nodes: int, path: Path) -> dict[str, Any]:
    masks = {split: name for split, names in MASKS.items() for name in names if name in arrays}
    if not masks:
        return {}
    if missing := [split for split in MASKS if split not in masks]:
        raise DataError(f"{path}: {', '.join(masks.values())}, and none for {missing[0]}. Give all three, or none.")
    for name in masks.values():
        mask = arrays[name]
        if mask.shape != (nodes,) or mask.dtype.kind not in "biu" or not np.isin(mask, (0, 1)).all():
            raise DataError(f"{path}: {name} is {mask.shape} of {mask.dtype}, expected ({nodes},) of 0 or 1.")
    splits = {split: torch.from_numpy(np.flatnonzero(arrays[name])) for split, name in masks.items()}
    return {"splits": splits, "split_name": "as the file says"}


def _required(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path}: no array {name} in it, which its other arrays need. Add it.")
    return arrays[name]
