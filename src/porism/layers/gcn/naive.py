"""The oracle: the equations over dense matrices, loops over edges and nodes. Autograd differentiates it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def adjacency(edge_index: Tensor, N: int, weights: Tensor | None = None, loop_weight: float = 1.0) -> Tensor:
    """A + loop_weight I: row i holds the weights of the edges that lead to node i. Float64, (N, N).

    Edges (2, E) lead from their first row to their second. Those that are listed twice add up. A node that has a loop
    keeps it as it is.
    """
    A = torch.zeros(N, N, dtype=torch.float64)
    looped = set()
    for e, (source, target) in enumerate(edge_index.T.tolist()):
        A[target, source] += 1.0 if weights is None else weights[e].double()
        if source == target:
            looped.add(source)
    for i in range(N):
        if loop_weight and i not in looped:
            A[i, i] = loop_weight
    return A


def is_edge(edge_index: Tensor, N: int, self_loops: bool = True) -> Tensor:
    """Where A, or A + I, has an edge: one of weight 0 is an edge too. Bool, (N, N)."""
    edge = torch.zeros(N, N, dtype=torch.bool)
    for source, target in edge_index.T.tolist():
        edge[target, source] = True
    for i in range(N):
        edge[i, i] |= self_loops
    return edge


def normalized(A: Tensor, edge: Tensor, normalization: str) -> Tensor:
    """Ahat from A + I. Degrees are its row sums; a node without neighbors has a row of zeros."""
    Ahat = torch.zeros_like(A)
    degree = A.sum(1).tolist()
    for i, row in enumerate(A.tolist()):
        neighbors = edge[i].nonzero().flatten().tolist()
        for j in neighbors:
            match normalization:
                case "none":
                    Ahat[i, j] = row[j]
                case "rw":
                    Ahat[i, j] = row[j] / degree[i] if degree[i] else 0.0
                case "sym":
                    Ahat[i, j] = row[j] / math.sqrt(degree[i] * degree[j]) if degree[i] * degree[j] else 0.0
                case "softmax":
                    Ahat[i, j] = math.exp(row[j]) / sum(math.exp(row[k]) for k in neighbors)
                case _:
                    raise ValueError(normalization)
    return Ahat


def graph_convolution(x: Tensor, Ahat: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[i] = sum over j of Ahat[i, j] x[j] W^T + b. x (N, D), Ahat (N, N), weight (H, D), bias (H) -> (N, H)."""
    rows = []
    for i in range(len(Ahat)):
        sum_over_neighbors = torch.zeros_like(x[0])
        for j in range(len(x)):
            if Ahat[i, j]:
                sum_over_neighbors = sum_over_neighbors + Ahat[i, j].to(x.dtype) * x[j]
        row = sum_over_neighbors @ weight.mT
        rows.append(row if bias is None else row + bias)
    return torch.stack(rows)


def network(x: Tensor, Ahat: Tensor, layers: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Convolutions one after the other with a relu between them, the scores of the last: `(weight, bias)` for each."""
    *hidden, last = layers
    for weight, bias in hidden:
        x = torch.relu(graph_convolution(x, Ahat, weight, bias))
    return graph_convolution(x, Ahat, *last)
