"""Ahat of a list of edges at once, without a Graph: one operator, so that compiled code may take edges as an input.

Sizes are those of the input: every edge is an entry, and so is every self-loop that is added, with weight 0 where the
node has one already. `Graph` merges such entries, which takes longer and is done once.
"""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import Csr, starts_of, transpose
from porism.layers.gcn.adjacency.edges import Neighbors, check_edge_index, check_edges
from porism.layers.gcn.adjacency.normalize import Normalization, normalize
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.layers.operands import is_transformed
from porism.layers.operators import LIBRARY, map_by_turns, register


def gcn_norm(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    nodes: int,
    how: Normalization,
    dtype: torch.dtype,
    needs_transposed: bool = True,
) -> Propagation:
    """The normalized adjacency matrix of edges (2, E), and its transposed where the backward pass needs it.

    >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> gcn_norm(edges, None, 3, Normalization.of("rw"), torch.float32).there.to_dense(3)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333],
            [0.0000, 0.5000, 0.5000]])
    """
    check_edge_index(edge_index, edge_weight)
    if is_transformed(edge_weight):
        raise ShapeError(
            "gcn: edge_weight is inside a transform of torch.func, and has no gradient here. Give it from outside."
        )
    if how.flow == "target_to_source":
        edge_index = edge_index.flip(0)
    exact = torch.promote_types(dtype, torch.float32)
    settings = nodes, how.kind, how.loop_weight, exact, needs_transposed
    starts, columns, values, *transposed = OPERATOR(edge_index, edge_weight, *settings)
    there = Csr(starts, columns, values)
    return Propagation(there, Csr(*transposed) if needs_transposed else there)


def _matrices(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    nodes: int,
    kind: str,
    loop_weight: int,
    dtype: torch.dtype,
    needs_transposed: bool,
) -> tuple[Tensor, ...]:
    """Starts, columns and values of Ahat, and those of its transposed: empty where they are not needed."""
    check_edges(edge_index, nodes, edge_weight)
    neighbors = _neighbors(edge_index.long(), edge_weight, nodes, loop_weight, merges=kind == "softmax")
    there = Csr(neighbors.starts, neighbors.columns, normalize(neighbors, kind, dtype))
    if not needs_transposed:
        return *there, *(part.new_empty(0) for part in there)
    return *there, *transpose(there.starts, there.columns, nodes).of(there.values)


def _neighbors(edge_index: Tensor, edge_weight: Tensor | None, nodes: int, loop_weight: int, merges: bool) -> Neighbors:
    """The rows of A + loop_weight I, sorted. An edge that is listed twice is there twice."""
    sources, targets = edge_index
    if edge_weight is None:
        weights = torch.ones(len(sources), dtype=torch.float64, device=sources.device)
    else:
        weights = edge_weight.double()
    if loop_weight:
        is_loop = (sources == targets).double()
        has_loop = is_loop.new_zeros(nodes).index_add_(0, sources, is_loop) > 0
        loops = torch.arange(nodes, device=sources.device)
        sources, targets = torch.cat([sources, loops]), torch.cat([targets, loops])
        weights = torch.cat([weights, weights.new_full((nodes,), loop_weight).masked_fill_(has_loop, 0)])
    keys, order = torch.sort(targets * nodes + sources, stable=True)
    weights = weights[order]
    if merges and len(keys):
        # The softmax is over neighbors: the first entry of a pair has the sum of its weights, the others e^-inf.
        group = torch.cat([keys.new_zeros(1), (keys.diff() != 0).cumsum(0)])
        sums = torch.zeros_like(weights).index_add_(0, group, weights)
        is_first = torch.cat([keys.new_ones(1, dtype=torch.bool), keys.diff() != 0])
        weights = torch.where(is_first, sums[group], -torch.inf)
    return Neighbors(starts_of(keys // nodes, nodes), (keys % nodes).to(torch.int32), weights)


def _shapes(
    edge_index: Tensor, edge_weight: Any, nodes: int, kind: Any, loop_weight: int, dtype: torch.dtype, transposed: bool
) -> tuple[Tensor, ...]:
    entries = edge_index.shape[1] + (nodes if loop_weight else 0)
    sizes = ((nodes + 1, torch.int64), (entries, torch.int32), (entries, dtype))
    there = tuple(edge_index.new_empty(size, dtype=kind) for size, kind in sizes)
    return *there, *(torch.empty_like(part) if transposed else part.new_empty(0) for part in there)


OPERATOR = register(
    "gcn_norm(Tensor edge_index, Tensor? edge_weight, SymInt nodes, str kind, int loop_weight, ScalarType dtype, "
    "bool needs_transposed) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _matrices,
    _shapes,
)
torch.library.register_vmap(
    OPERATOR, lambda info, in_dims, *args: map_by_turns(OPERATOR, info.batch_size, in_dims, args), lib=LIBRARY
)
