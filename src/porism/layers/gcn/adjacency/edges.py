"""From a list of edges to rows of neighbors: sorted, each pair once, self-loops added where a node has none."""

from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import check_arrays, check_pattern, rows_of, starts_of, transpose
from porism.layers.operands import FLOATS, INTEGERS

MOST_NODES = 2**31 - 1
"""Columns are numbers of 32 bits."""

NUMBERS = (*INTEGERS, torch.uint16, torch.uint32)
"""What nodes may be numbered in: all that int64 holds."""


class Neighbors(NamedTuple):
    """Rows of neighbors: the start of each row (N + 1), the sources of its edges (E), and their weights: None is 1."""

    starts: Tensor
    columns: Tensor
    weights: Tensor | None

    @property
    def nodes(self) -> int:
        return self.starts.shape[0] - 1

    def to(self, device: torch.device | str) -> "Neighbors":
        weights = None if self.weights is None else self.weights.to(device)
        return Neighbors(self.starts.to(device), self.columns.to(device), weights)

    def reversed(self) -> "Neighbors":
        """The same edges in the other direction."""
        transposed = transpose(self.starts, self.columns, self.nodes)
        weights = None if self.weights is None else self.weights.index_select(0, transposed.order)
        return Neighbors(transposed.starts, transposed.columns, weights)

    def check(self) -> None:
        """Refuses arrays that are no rows of neighbors."""
        check_arrays(*self)
        check_pattern(self.starts, self.columns, self.nodes)


def check_edge_index(edge_index: Tensor, weights: Tensor | None) -> None:
    """Refuses what is no list of edges and weights by type, shape and device, without reading a number."""
    _check_dense("edge_index", edge_index)
    if edge_index.dim() != 2 or len(edge_index) != 2:
        raise ShapeError(
            f"gcn: edge_index is {tuple(edge_index.shape)}, expected (2, E): the source and the target of each edge. "
            "Transpose it, if each row is an edge."
        )
    if edge_index.dtype not in NUMBERS:
        raise ShapeError(
            f"gcn: edge_index is {edge_index.dtype}, expected whole numbers. Convert with edge_index.long()."
        )
    if weights is not None:
        _check_weights(weights, edge_index)


def _check_weights(weights: Tensor, edge_index: Tensor) -> None:
    _check_dense("edge_weight", weights)
    edges = edge_index.shape[1]
    if tuple(weights.shape) != (edges,):
        raise ShapeError(
            f"gcn: edge_weight is {tuple(weights.shape)}, expected ({edges},), one for each edge. Reshape it."
        )
    if weights.dtype not in (*FLOATS, *INTEGERS, torch.bool):
        raise ShapeError(
            f"gcn: edge_weight is {weights.dtype}, expected real numbers. Convert with edge_weight.real or .float()."
        )
    if weights.device != edge_index.device:
        raise ShapeError(
            f"gcn: edge_weight is on {weights.device}, edge_index on {edge_index.device}, expected one device. "
            f"Move it with edge_weight.to({str(edge_index.device)!r})."
        )
    if weights.requires_grad:
        raise ShapeError(
            "gcn: edge_weight requires a gradient, which this layer does not give. "
            "Give edge_weight.detach(); to learn weights of edges, use torch_geometric.nn.GCNConv."
        )


def check_edges(edge_index: Tensor, nodes: int, weights: Tensor | None) -> None:
    """Refuses edges of unknown nodes, and weights that are not finite."""
    if isinstance(nodes, bool) or not isinstance(nodes, Integral) or not 1 <= nodes <= MOST_NODES:
        raise ShapeError(f"gcn: the graph has {nodes!r} nodes. Give a whole number from 1 to {MOST_NODES}.")
    if edge_index.numel():
        least, most = (int(end) for end in edge_index.aminmax())
        if least < 0 or most >= nodes:
            raise ShapeError(
                f"gcn: edge_index runs from {least} to {most}, and {nodes} nodes are numbered 0 to {nodes - 1}. "
                "Number the nodes from 0 on, or give their number."
            )
    if weights is not None and not weights.isfinite().all():
        edge = int((~weights.isfinite()).nonzero()[0])
        raise ShapeError(
            f"gcn: the weight of edge {edge} is {float(weights[edge])}, expected a finite number. Leave out such edges."
        )


def _check_dense(name: str, given: Any) -> None:
    if not isinstance(given, Tensor):
        raise ShapeError(f"gcn: {name} is a {type(given).__name__}, expected a tensor. Use torch.as_tensor.")
    if given.layout is not torch.strided or given.is_nested:
        kind = "nested" if given.is_nested else given.layout
        raise ShapeError(f"gcn: {name} is {kind}, expected a dense tensor. Convert with .to_dense().")


def neighbors(edge_index: Tensor, nodes: int, weights: Tensor | None) -> Neighbors:
    """The rows of A: edge (j, i) leads from j to i, so that row i has column j. Edges of the same two nodes add up."""
    sources, targets = edge_index.long()
    keys, order = torch.sort(targets * nodes + sources)
    weights = None if weights is None else weights.double()[order]
    is_first = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=is_first[1:])
    if not is_first.all():
        weights = torch.ones(len(keys), dtype=torch.float64, device=keys.device) if weights is None else weights
        group = is_first.cumsum(0) - 1
        keys = keys[is_first]
        weights = weights.new_zeros(len(keys)).index_add_(0, group, weights)
    return Neighbors(starts_of(keys // nodes, nodes), (keys % nodes).to(torch.int32), weights)


def with_loops(neighbors: Neighbors, loop_weight: int = 1) -> Neighbors:
    """A + loop_weight I: a self-loop for every node that has none. One that a node has stays as it is."""
    starts, columns, weights = neighbors
    rows = rows_of(starts)
    if ((rows * neighbors.nodes + columns).diff() <= 0).any():
        raise ShapeError("gcn: rows of neighbors are not sorted, or name one twice. Make the graph with Graph.")
    lacking = torch.ones(neighbors.nodes, dtype=torch.int64, device=starts.device)
    lacking[rows[columns == rows]] = 0
    # A row moves by the loops that are added to the rows above it, and the columns after its own loop by one more.
    moved = torch.zeros_like(starts)
    torch.cumsum(lacking, 0, out=moved[1:])
    shift = moved[rows] + lacking[rows] * (columns > rows)
    positions = shift.add_(torch.arange(len(columns), device=starts.device))
    total = len(columns) + int(moved[-1])
    is_loop = torch.ones(total, dtype=torch.bool, device=starts.device)
    is_loop[positions] = False
    filled = columns.new_empty(total)
    filled[positions] = columns
    filled[is_loop] = lacking.nonzero()[:, 0].to(columns.dtype)
    if weights is None and loop_weight != 1:
        weights = torch.ones(len(columns), dtype=torch.float64, device=starts.device)
    if weights is not None:
        weights = weights.new_full((total,), loop_weight).index_copy_(0, positions, weights)
    return Neighbors(starts + moved, filled, weights)
