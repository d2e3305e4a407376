"""Graphs from lists of edges in files."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError
from porism.layers.gcn import Graph
from porism.tasks.blocks.memory import check_fits

MEMORY_EACH = 100
"""Bytes for a node or an edge while a graph is sorted and normalised, about."""


def graph_of(where: str, edges: NDArray[Any], nodes: int, weights: NDArray[Any] | None = None) -> Graph:
    """The graph of edges (2, E), each from the node in the first row to the node in the second, and weights (E).

    >>> graph_of("a.npz", np.array([[0, 1], [1, 3]]), nodes=3)
    Traceback (most recent call last):
    porism.errors.DataError: a.npz: edge_index runs from 0 to 3, and 3 nodes are numbered 0 to 2. ...
    """
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index is {edges.shape} of {edges.dtype}, expected (2, E) of whole numbers: where each edge "
            "starts, and where it ends."
        )
    if edges.size and not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise DataError(
            f"{where}: edge_index runs from {edges.min()} to {edges.max()}, and {nodes} nodes are numbered 0 to "
            f"{nodes - 1}. Number the nodes from 0 on, one for each row of features."
        )
    check_fits(where, MEMORY_EACH * (nodes + edges.shape[1]), f"a graph of {nodes} nodes and {edges.shape[1]} edges")
    edge_index = torch.from_numpy(np.ascontiguousarray(edges, dtype=np.int64))
    return Graph(edge_index, None if weights is None else _checked(where, weights, edges.shape[1]), num_nodes=nodes)


def _checked(where: str, weights: NDArray[Any], edges: int) -> torch.Tensor | None:
    if weights.shape != (edges,) or weights.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: weights are {weights.shape} of {weights.dtype}, expected ({edges},) numbers, one for each edge."
        )
    if (weights == 1).all():
        return None
    exact = weights.astype(np.float64)
    # The kernels take weights in 32 bits, where larger numbers overflow.
    with np.errstate(over="ignore"):
        wrong = np.flatnonzero(~np.isfinite(exact.astype(np.float32)))
    if len(wrong):
        raise DataError(
            f"{where}: the weight of edge {wrong[0]} is {exact[wrong[0]]}, expected a number below 3e38. "
            "Leave such edges out."
        )
    return torch.from_numpy(exact)
