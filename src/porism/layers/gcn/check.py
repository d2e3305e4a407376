"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator

import torch
from torch import Tensor

from porism.layers.cases import GradientCase, KernelCase
from porism.layers.gcn import naive
from porism.layers.gcn.adjacency.normalize import NORMALIZATIONS
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.functional import graph_convolution
from porism.layers.gcn.gradient import layer_gradient, product_gradient
from porism.layers.gcn.graph import Graph

N, D, H = 7, 3, 5

EDGES = torch.tensor([[0, 0, 1, 2, 2, 3, 3, 5, 5], [1, 2, 0, 3, 3, 3, 0, 2, 0]])
"""Directed, one edge twice, one loop; nodes 4 and 6 have no edge."""


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    for normalization in NORMALIZATIONS:
        for project_first in (True, False):
            yield _layer(draw, normalization, project_first)
    yield _sparse(draw)


def _layer(draw: torch.Generator, normalization: str, project_first: bool) -> GradientCase:
    weights = torch.rand(EDGES.shape[1], generator=draw, dtype=torch.float64)
    Ahat = naive.normalized(naive.adjacency(EDGES, N, weights), naive.is_edge(EDGES, N), normalization)
    at = {"x": _normal(draw, N, D), "weight": _normal(draw, H, D), "bias": _normal(draw, H)}
    dy = _normal(draw, N, H)

    def weighted(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return (naive.graph_convolution(x, Ahat, weight, bias) * dy).sum()

    propagation = Graph(EDGES, weights, num_nodes=N).propagation(normalization, dtype=torch.float64)
    hand = layer_gradient(dy, at["x"], at["weight"], propagation.there, propagation.back, project_first)
    order = "weight first" if project_first else "graph first"
    return GradientCase(f"{normalization}, {order}", weighted, at, hand._asdict())


def _sparse(draw: torch.Generator) -> GradientCase:
    """The product of sparse features with a weight."""
    dense = _normal(draw, N, D) * (torch.rand(N, D, generator=draw) < 0.5)
    x, dz = SparseFeatures.from_dense(dense), _normal(draw, N, H)

    def weighted(weight: Tensor) -> Tensor:
        return ((dense @ weight.mT) * dz).sum()

    at = {"weight": _normal(draw, H, D)}
    dW, _ = product_gradient(dz, x.back, needs_bias=False)
    assert dW is not None
    return GradientCase("sparse features", weighted, at, {"weight": dW.mT})


def _normal(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    graph, edge = Graph(EDGES, num_nodes=N), naive.is_edge(EDGES, N)
    for normalization in NORMALIZATIONS:
        at = {"x": _normal(draw, N, D), "weight": _normal(draw, H, D), "bias": _normal(draw, H)}
        Ahat = naive.normalized(naive.adjacency(EDGES, N), edge, normalization)

        def convolved(x: Tensor, weight: Tensor, bias: Tensor, normalization: str = normalization) -> Tensor:
            return graph_convolution(x, graph.to(x.device), weight, bias, normalization=normalization)

        def by_loops(x: Tensor, weight: Tensor, bias: Tensor, Ahat: Tensor = Ahat) -> Tensor:
            return naive.graph_convolution(x, Ahat, weight, bias)

        yield KernelCase(normalization, convolved, by_loops, {name: part.float() for name, part in at.items()})
