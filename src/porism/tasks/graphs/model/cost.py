"""What a net of graph convolutions costs, as named terms, for a step over the whole graph.

N nodes, E entries of A + I, D features a node, H hidden width, V classes, K hops; of sparse
features M are stored. A recipe with several copies of its net pays as many times.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from sympy import Expr, Min
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.alphabet import D, E, H, K, M, N, V
from porism.costing.terms import Terms
from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr, Transposition
from porism.layers.gcn.functional import project_first
from porism.layers.gcn.graph import Outline
from porism.tasks.graphs.model.build import build
from porism.tasks.graphs.recipes import GraphRecipe


def model_cost(recipe: GraphRecipe, dense_widths: tuple[int, int] | None = None) -> Terms:
    """The cost of a net on sparse features, or on dense ones: then the first layer's widths decide its order.

    >>> model_cost(RECIPES["kipf"]).total("flops")
    2*(E*H + E*Min(H, V) + H*M + H*N*V)
    """
    widths = [D, *[H] * (recipe.num_layers - 1), V]
    spread_first = dense_widths is not None and not project_first(*dense_widths, learns_x=False)
    layers = [_first_layer(widths[1], recipe, dense_widths is None, spread_first)]
    layers += [_layer(before, after, recipe.model == "gcn") for before, after in pairwise(widths[1:])]
    total = Terms()
    for place, layer in enumerate(layers, 1):
        total += layer.with_prefix(f"layer {place}")
    return total + _spreading() if recipe.model == "appnp" else total


def _layer(before: Expr, after: Expr, convolves: bool) -> Terms:
    """Spreading happens on the narrower side of W, there and back."""
    product = 2 * N * before * after
    spread = {"propagation": 2 * E * Min(before, after)} if convolves else {}
    return Terms(
        parameters={"weight": before * after, "bias": after},
        flops={"projection": product, **spread},
        backward_flops={"projection": product, "projection's weight": product, **spread},
    )


def _first_layer(after: Expr, recipe: GraphRecipe, sparse: bool, spread_first: bool) -> Terms:
    """Features learn nothing. Of sparse ones only what is stored is touched; dense ones may be spread before W comes,
    and were so before training began where dropout leaves them alone."""
    product = 2 * (M if sparse else N * D) * after
    there: dict[str, Expr] = {}
    back: dict[str, Expr] = {}
    if recipe.model == "gcn" and (sparse or recipe.input_dropout > 0):
        there = {"propagation": 2 * E * (D if spread_first else after)}
        back = {} if spread_first else there
    return Terms(
        parameters={"weight": D * after, "bias": after},
        flops={"projection": product, **there},
        backward_flops={"projection's weight": product, **back},
    )


def _spreading() -> Terms:
    hops = {"spreading": 2 * K * E * V}
    return Terms(flops=hops, backward_flops=hops)


class _Loss(nn.Module):
    """A net with its loss over all nodes."""

    def __init__(self, recipe: GraphRecipe, width: int, classes: int) -> None:
        super().__init__()
        self.model = build(recipe, width, classes)

    def forward(self, x: SparseFeatures, graph: Graph, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.model(x, graph), labels)


def subject(recipe: GraphRecipe) -> tuple[Callable[..., nn.Module], tuple[Any, ...], dict[str, int]]:
    """The net and its loss at any sizes on sparse features, the inputs, and the recipe's own sizes."""

    def features(N: int, D: int, M: int) -> SparseFeatures:
        there = Csr(_starts(N, M), _zeros(M).int(), torch.zeros(M))
        return SparseFeatures(there, D, Transposition(_starts(D, M), _zeros(M).int(), _zeros(M)))

    inputs = (features, lambda N, E: Outline(N, E), "N : int < V")
    if recipe.model == "appnp":
        sizes = {"H": recipe.hidden_size, "K": recipe.power_iterations}
        return lambda D, H, V, K: _Loss(replace(recipe, hidden_size=H, power_iterations=K), D, V), inputs, sizes
    return lambda D, H, V: _Loss(replace(recipe, hidden_size=H), D, V), inputs, {"H": recipe.hidden_size}


def _starts(rows: int, stored: int) -> Tensor:
    """Of rows that are empty but the last."""
    starts = _zeros(rows + 1)
    starts[-1] = stored
    return starts


def _zeros(size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64)
