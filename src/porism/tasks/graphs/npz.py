"""Graphs in `.npz` files, as numpy writes them.

Edges are an array `edge_index` (2, E), each from the first row to the second, with `edge_weight` (E) if they have
weights; or a sparse matrix as `adj_data`, `adj_indices`, `adj_indptr`. Features are `features` or `x` (N, D), or sparse
as `attr_data`, `attr_indices`, `attr_indptr`, `attr_shape`. Labels are `labels` or `y` (N), -1 where unknown, and
`train_mask`, `valid_mask` (or `val_mask`) and `test_mask` (N) a split, if there is one.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError, ShapeError
from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.csr import Csr
from porism.tasks.download import read_content
from porism.tasks.graphs.labelled import UNKNOWN, Features, LabelledGraph

Arrays = Mapping[str, NDArray[Any]]
MASKS = {"train": ("train_mask",), "valid": ("valid_mask", "val_mask"), "test": ("test_mask",)}


def read_npz(path: Path) -> LabelledGraph:
    """The graph of a file. Without labels every node's class is unknown."""
    try:
        with np.load(io.BytesIO(read_content(path)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an npz file of plain arrays ({error}). Write it with numpy.savez.") from None
    try:
        features = _features(arrays, path)
        graph = _graph(arrays, path, features.shape[0])
    except ShapeError as error:
        raise DataError(f"{path}: {error}") from None
    labels = _labels(arrays, graph.nodes, path)
    count = int(labels.max()) + 1
    names = arrays.get("class_names", [f"class {number}" for number in range(count)])
    if len(names) < count:
        raise DataError(f"{path}: {len(names)} class_names, and labels run to {count - 1}. Name every class.")
    return LabelledGraph(str(path), graph, features, labels, tuple(map(str, names)), **_split(arrays, labels, path))


def _graph(arrays: Arrays, path: Path, nodes: int) -> Graph:
    if "edge_index" in arrays:
        edges, weights = arrays["edge_index"], arrays.get("edge_weight")
    elif "adj_indptr" in arrays:
        starts, columns = arrays["adj_indptr"], _wanted(arrays, "adj_indices", path)
        if len(starts) != nodes + 1 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
            raise DataError(f"{path}: adj_indptr does not cut {len(columns)} entries into {nodes} rows. Check it.")
        # Row i holds what node i hears.
        edges = np.stack([columns, np.repeat(np.arange(nodes), np.diff(starts))])
        weights = arrays.get("adj_data")
    else:
        raise DataError(
            f"{path}: no edges in it. Add an array edge_index (2, E), or adj_data, adj_indices, adj_indptr."
        )
    if weights is not None and (weights == 1).all():
        weights = None
    return Graph.from_edges(_tensor(edges), nodes, None if weights is None else _tensor(weights))


def _features(arrays: Arrays, path: Path) -> Features:
    if "attr_indptr" in arrays:
        values, columns, starts, shape = (_wanted(arrays, f"attr_{part}", path) for part in _SPARSE)
        if len(columns) and not 0 <= columns.min() <= columns.max() < shape[1]:
            raise DataError(f"{path}: attr_indices run to {columns.max()}, and attr_shape has {shape[1]} columns.")
        there = Csr(_tensor(starts).long(), _tensor(columns).int(), _tensor(values).float())
        return SparseFeatures(there, int(shape[1]))
    found = next((arrays[name] for name in ("features", "x") if name in arrays), None)
    if found is None:
        raise DataError(f"{path}: no features in it. Add an array features (N, D); one-hot rows, if nodes have none.")
    if found.ndim != 2 or not found.size or found.dtype.kind not in "fiub":
        raise DataError(f"{path}: features are {found.shape} of {found.dtype}, wanted (N, D) of numbers.")
    return thinned(_tensor(found).float())


_SPARSE = ("data", "indices", "indptr", "shape")


def thinned(x: torch.Tensor) -> Features:
    """Features as they are, or only what is not zero where that is little."""
    return SparseFeatures.from_dense(x) if (x != 0).float().mean() < SPARSE_BELOW else x


SPARSE_BELOW = 0.1
"""The share of features that are not zero below which the sparse product is the faster one."""


def _labels(arrays: Arrays, nodes: int, path: Path) -> torch.Tensor:
    found = next((arrays[name] for name in ("labels", "y") if name in arrays), None)
    if found is None:
        return torch.full((nodes,), UNKNOWN)
    if found.dtype.kind not in "iu" or found.shape != (nodes,) or (len(found) and found.min() < UNKNOWN):
        raise DataError(
            f"{path}: labels are {found.shape} of {found.dtype}, wanted ({nodes},) of whole numbers, one for each "
            "node: its class from 0 on, or -1 where that is unknown."
        )
    return _tensor(found).long()


def _split(arrays: Arrays, labels: torch.Tensor, path: Path) -> dict[str, Any]:
    found = {split: name for split, names in MASKS.items() for name in names if name in arrays}
    if not found:
        return {}
    if missing := [split for split in MASKS if split not in found]:
        raise DataError(f"{path}: {', '.join(found.values())}, and none for {missing[0]}. Give all three, or none.")
    for name in found.values():
        if arrays[name].shape != tuple(labels.shape):
            raise DataError(f"{path}: {name} is {arrays[name].shape}, wanted ({len(labels)},), one for each node.")
    splits = {split: _tensor(arrays[name].astype(bool)).nonzero()[:, 0] for split, name in found.items()}
    return {"splits": splits, "split_name": "as the file says"}


def _wanted(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise DataError(f"{path}: no array {name} in it, which its sisters need. Add it.")
    return arrays[name]


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
