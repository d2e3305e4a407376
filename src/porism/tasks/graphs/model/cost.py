"""What is counted of a graph model, for a step over the whole graph.

N nodes, E entries of A + I, D features a node, H hidden width, V classes, K hops; of sparse
features M are stored. A recipe with several copies of its net costs as many times.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.subject import CostSubject
from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr, Transposition
from porism.layers.gcn.graph import Outline
from porism.tasks.graphs.model.build import build
from porism.tasks.graphs.recipes import GraphRecipe

FEW_HOPS = 8
"""Up to which propagation is counted: all hops are alike."""


class GraphModelWithLoss(nn.Module):
    """A net with its loss over all nodes."""

    def __init__(self, recipe: GraphRecipe, width: int, classes: int) -> None:
        super().__init__()
        self.model = build(recipe, width, classes)

    def forward(self, x: SparseFeatures | Tensor | Propagated, graph: Graph, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.model(x, graph), labels)


def subject(recipe: GraphRecipe) -> CostSubject:
    """The net and its loss at any sizes on sparse features, the inputs, and the recipe's own sizes."""

    def features(N: int, D: int, M: int) -> SparseFeatures:
        there = Csr(_starts(N, M), _zeros(M).int(), torch.zeros(M))
        return SparseFeatures(there, D, Transposition(_starts(D, M), _zeros(M).int(), _zeros(M)))

    inputs = (features, lambda N, E: Outline(N, E), "N : int < V")
    sizes = {"H": recipe.hidden_size}
    if recipe.model == "appnp":
        return CostSubject(
            lambda D, H, V, K: GraphModelWithLoss(replace(recipe, hidden_size=H, power_iterations=K), D, V),
            inputs,
            sizes | {"K": recipe.power_iterations},
            largest={"K": FEW_HOPS},
            sized_fields=("hidden_size", "power_iterations"),
        )
    return CostSubject(
        lambda D, H, V: GraphModelWithLoss(replace(recipe, hidden_size=H), D, V),
        inputs,
        sizes,
        sized_fields=("hidden_size",),
    )


def subject_on_dense(recipe: GraphRecipe, sizes: Mapping[str, int]) -> CostSubject:
    """The same on dense features of a graph of given sizes.

    They are projected first or propagated first, whichever is narrower, so widths stay numbers. Without dropout
    on them they are propagated once before training, which no step costs.
    """
    propagates_once = recipe.model == "gcn" and recipe.input_dropout == 0

    def features(N: int, D: int, E: int) -> Tensor | Propagated:
        x = torch.zeros(N, D)
        return Propagated.of(x, Outline(N, E), recipe.normalization) if propagates_once else x

    return replace(
        subject(recipe),
        inputs=(features, lambda N, E: Outline(N, E), "N : int < V"),
        fixed={letter: sizes[letter] for letter in ("D", "H", "V")},
        made_of={"features": "dense"},
    )


def _starts(rows: int, stored: int) -> Tensor:
    """Row starts where all rows but the last are empty."""
    starts = _zeros(rows + 1)
    starts[-1] = stored
    return starts


def _zeros(size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64)
