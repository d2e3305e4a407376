"""Graphs to test on: directed, weighted, with loops, with edges that are listed twice, with isolated nodes."""

import torch
from torch import Tensor

from porism.layers.gcn import Graph, naive


def drawn(N: int, weighted: bool = True, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """Edges and weights: the last node of several has no edge, the first has a loop, and one edge comes twice."""
    draw = torch.Generator().manual_seed(seed)
    edges = torch.randint(max(1, N - 1), (2, 3 * N), generator=draw)
    edges = torch.cat([edges, edges[:, :1], torch.zeros(2, 1, dtype=torch.int64)], 1)
    weights = torch.rand(edges.shape[1], generator=draw, dtype=torch.float64) + 0.1
    return edges, weights if weighted else None


def dense(edges: Tensor, N: int, weights: Tensor | None, normalization: str, self_loops: bool = True) -> Tensor:
    """Ahat by the oracle."""
    A, edge = naive.adjacency(edges, N, weights, self_loops), naive.is_edge(edges, N, self_loops)
    return naive.normalized(A, edge, normalization)


def star(leaves: int) -> Graph:
    """Node 0 in the middle."""
    hub, leaf = torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)
    return Graph(torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])]))


def random_graph(N: int, seed: int, directed: bool = True, weighted: bool = False) -> Graph:
    """A graph of N nodes and about 3 N edges; no two seeds give the same."""
    draw = torch.Generator().manual_seed(seed)
    edges = torch.randint(N, (2, 3 * N), generator=draw)
    edges = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    weights = torch.rand(edges.shape[1], generator=draw) + 0.1 if weighted else None
    return Graph(edges, weights, num_nodes=N)
