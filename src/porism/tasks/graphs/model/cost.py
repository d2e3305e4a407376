"""The cost of a graph model, as named terms, for a step over the whole graph.

N nodes, E entries of A + I, D features a node, H hidden width, V classes, K hops; of sparse
features M are stored. A recipe with several copies of its net costs as many times.
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
    propagate_first = dense_widths is not None and not project_first(*dense_widths, learns_x=False)
    layers = [_first_layer(widths[1], recipe, dense_widths is None, propagate_first)]
    layers += [_layer(in_width, out_width, recipe.model == "gcn") for in_width, out_width in pairwise(widths[1:])]
    total = Terms()
    for number, layer in enumerate(layers, 1):
        total += layer.with_prefix(f"layer {number}")
    return total + _propagation() if recipe.model == "appnp" else total


def _layer(in_width: Expr, out_width: Expr, convolves: bool) -> Terms:
    """Propagation is on the narrower side of W, forward and backward."""
    product = 2 * N * in_width * out_width
    propagation = {"propagation": 2 * E * Min(in_width, out_width)} if convolves else {}
    return Terms(
        parameters={"weight": in_width * out_width, "bias": out_width},
        flops={"projection": product, **propagation},
        backward_flops={"projection": product, "projection's weight": product, **propagation},
    )


def _first_layer(out_width: Expr, recipe: GraphRecipe, sparse: bool, propagate_first: bool) -> Terms:
    """Features need no gradient. Of sparse ones only the stored values count; dense ones may be propagated before W,
    which is done once before training where there is no dropout on them."""
    product = 2 * (M if sparse else N * D) * out_width
    forward: dict[str, Expr] = {}
    backward: dict[str, Expr] = {}
    if recipe.model == "gcn" and (sparse or recipe.input_dropout > 0):
        forward = {"propagation": 2 * E * (D if propagate_first else out_width)}
        backward = {} if propagate_first else forward
    return Terms(
        parameters={"weight": D * out_width, "bias": out_width},
        flops={"projection": product, **forward},
        backward_flops={"projection's weight": product, **backward},
    )


def _propagation() -> Terms:
    hops = {"propagation": 2 * K * E * V}
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
    """Row starts where all rows but the last are empty."""
    starts = _zeros(rows + 1)
    starts[-1] = stored
    return starts


def _zeros(size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64)
