"""From a list of edges to rows of neighbours: sorted, each pair once, loops added where a node has none."""

from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import check_arrays, check_pattern, rows_of, starts_of
from porism.layers.gcn.adjacency.modes import check_numbers
from porism.layers.operands import FLOATS, INTEGERS

MOST_NODES = 2**31 - 1
"""Columns are numbers of 32 bits."""

NUMBERS = (*INTEGERS, torch.uint16, torch.uint32)
"""What nodes may be numbered in: all that int64 holds."""


class Neighbours(NamedTuple):
    """Whom each node hears: where its row starts (N + 1), the nodes in it (E), and how loud: None stands for 1."""

    starts: Tensor
    columns: Tensor
    weights: Tensor | None

    @property
    def nodes(self) -> int:
        return self.starts.shape[0] - 1

    def to(self, device: torch.device | str) -> "Neighbours":
        weights = None if self.weights is None else self.weights.to(device)
        return Neighbours(self.starts.to(device), self.columns.to(device), weights)

    def check(self) -> None:
        """Refuses arrays that are no rows of neighbours."""
        check_arrays(*self)
        check_pattern(self.starts, self.columns, self.nodes)


def check_edge_index(edge_index: Tensor) -> None:
    """Refuses what is no list of edges by its kind; which nodes they name is not looked at."""
    _check_dense("edge_index is", edge_index)
    if edge_index.dim() != 2 or len(edge_index) != 2:
        raise ShapeError(
            f"gcn: edge_index is {tuple(edge_index.shape)}, wanted (2, E): where each edge starts, and where it ends. "
            "Transpose it, if each row is an edge."
        )
    if edge_index.dtype not in NUMBERS:
        raise ShapeError(
            f"gcn: edge_index is {edge_index.dtype}, wanted whole numbers. Convert with edge_index.long()."
        )
    check_numbers("edge_index is", edge_index)


def check_edges(edge_index: Tensor, nodes: int, weights: Tensor | None) -> None:
    """Refuses edges between nodes that are not there, and weights that do not belong to them."""
    if isinstance(nodes, bool) or not isinstance(nodes, Integral) or not 1 <= nodes <= MOST_NODES:
        raise ShapeError(f"gcn: the graph has {nodes!r} nodes. Give a whole number from 1 to {MOST_NODES}.")
    if edge_index.numel():
        least, most = (int(end) for end in edge_index.aminmax())
        if least < 0 or most >= nodes:
            raise ShapeError(
                f"gcn: edge_index runs from {least} to {most}, and {nodes} nodes are numbered 0 to {nodes - 1}. "
                "Number the nodes from 0 on, or give their number."
            )
    if weights is not None:
        _check_weights(weights, edge_index)


def _check_weights(weights: Tensor, edge_index: Tensor) -> None:
    _check_dense("weights are", weights)
    edges = edge_index.shape[1]
    if tuple(weights.shape) != (edges,):
        raise ShapeError(
            f"gcn: weights are {tuple(weights.shape)}, wanted ({edges},), one for each edge. Reshape them."
        )
    if weights.dtype not in (*FLOATS, *INTEGERS, torch.bool):
        raise ShapeError(
            f"gcn: weights are {weights.dtype}, wanted real numbers. Convert with weights.real or .float()."
        )
    if weights.device != edge_index.device:
        raise ShapeError(
            f"gcn: weights are on {weights.device}, edge_index on {edge_index.device}, wanted one device. "
            f"Move them with weights.to({str(edge_index.device)!r})."
        )
    if weights.requires_grad:
        raise ShapeError(
            "gcn: weights ask for a gradient, and a graph is normalised once, not at every step. "
            "Give weights.detach(), or learn the weights in a layer that attends."
        )
    check_numbers("weights are", weights)
    if not weights.isfinite().all():
        place = int((~weights.isfinite()).nonzero()[0])
        raise ShapeError(
            f"gcn: the weight of edge {place} is {float(weights[place])}, wanted a number. Leave out such edges."
        )


def _check_dense(name: str, given: Any) -> None:
    if not isinstance(given, Tensor):
        raise ShapeError(f"gcn: {name} a {type(given).__name__}, wanted a tensor. Use torch.as_tensor.")
    if given.layout is not torch.strided or given.is_nested:
        kind = "nested" if given.is_nested else given.layout
        raise ShapeError(f"gcn: {name} {kind}, wanted a dense tensor. Convert with .to_dense().")


def neighbours(edge_index: Tensor, nodes: int, weights: Tensor | None) -> Neighbours:
    """The rows of A: edge (j, i) leads from j to i, so i hears j. Edges between the same two nodes add up."""
    sources, targets = edge_index.long()
    keys, order = torch.sort(targets * nodes + sources)
    weights = None if weights is None else weights.double()[order]
    fresh = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=fresh[1:])
    if not fresh.all():
        weights = torch.ones(len(keys), dtype=torch.float64, device=keys.device) if weights is None else weights
        place = fresh.cumsum(0) - 1
        keys = keys[fresh]
        weights = weights.new_zeros(len(keys)).index_add_(0, place, weights)
    return Neighbours(starts_of(keys // nodes, nodes), (keys % nodes).to(torch.int32), weights)


def with_loops(heard: Neighbours) -> Neighbours:
    """A + I: a loop of weight 1 for every node that has none. One that is there stays as it is."""
    starts, columns, weights = heard
    rows = rows_of(starts)
    if ((rows * heard.nodes + columns).diff() <= 0).any():
        raise ShapeError("gcn: neighbours are not sorted, or are there twice. Make the graph with Graph.")
    lacking = torch.ones(heard.nodes, dtype=torch.int64, device=starts.device)
    lacking[rows[columns == rows]] = 0
    # A row moves by the loops that come into the rows before it, and what stands behind its own loop by one more.
    moved = torch.zeros_like(starts)
    torch.cumsum(lacking, 0, out=moved[1:])
    shift = moved[rows] + lacking[rows] * (columns > rows)
    places = shift.add_(torch.arange(len(columns), device=starts.device))
    total = len(columns) + int(moved[-1])
    is_loop = torch.ones(total, dtype=torch.bool, device=starts.device)
    is_loop[places] = False
    filled = columns.new_empty(total)
    filled[places] = columns
    filled[is_loop] = lacking.nonzero()[:, 0].to(columns.dtype)
    if weights is not None:
        weights = weights.new_ones(total).index_copy_(0, places, weights)
    return Neighbours(starts + moved, filled, weights)
