"""Nets that label nodes: graph convolutions one behind the other.

h[0] = x,   h[l] = relu(Ahat drop(h[l-1]) W[l] + b[l]),   logits = Ahat drop(h[L-1]) W[L] + b[L]
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from porism.layers.dropout import dropout
from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.recipes import GraphRecipe


class GraphModel(nn.Module):
    """Features of nodes to what a net says of their classes, before the softmax.

    Shapes: x (N, D) -> logits (N, V).
    """

    def __init__(self, recipe: GraphRecipe, width: int, classes: int) -> None:
        super().__init__()
        self.recipe = recipe
        widths = [width, *[recipe.hidden_size] * (recipe.num_layers - 1), classes]
        self.layers = nn.ModuleList(
            GraphConvolution(before, after, recipe.layer_normalization) for before, after in pairwise(widths)
        )

    def forward(self, x: Features | Propagated, graph: Graph) -> Tensor:
        return self.states(x, graph)[-1]

    @abstractmethod
    def states(self, x: Features | Propagated, graph: Graph) -> list[Tensor]:
        """What every layer hands on: (N, H) each, of the last one the logits (N, V)."""

    def copies(self, x: Features | Propagated, graph: Graph, count: int) -> Sequence[Tensor]:
        """The logits of several passes, each with dropout of its own."""
        return [self(x, graph) for _ in range(count)]

    def prepare(self, x: Features, graph: Graph) -> Features | Propagated:
        """Features as the net takes them in every step."""
        return x

    def penalty(self) -> Tensor:
        """Half of the sum of the first layer's squared weights."""
        return self.convolution(0).weight.square().sum() / 2

    def convolution(self, place: int) -> GraphConvolution:
        layer = self.layers[place]
        assert isinstance(layer, GraphConvolution)
        return layer

    def drop(self, h: Tensor) -> Tensor:
        return dropout(h, 1 - self.recipe.dropout) if self.training else h

    def drop_features(self, x: Features) -> Features:
        keep = 1 - self.recipe.input_dropout
        if not self.training or keep == 1:
            return x
        # Zeros are zeros, dropped or not: sparse features stay sparse.
        return x.dropout(1 - keep) if isinstance(x, SparseFeatures) else dropout(x, keep)


def disagreement(copies: Sequence[Tensor], temperature: float) -> Tensor:
    """The mean squared distance of each copy's probabilities from the sharpened mean. Each copy (N, V), logits.

    >>> disagreement([torch.tensor([[9.0, 0.0]]), torch.tensor([[9.0, 0.0]])], temperature=0.5) < 1e-6
    tensor(True)

    No gradient goes into the mean: copies move towards it, not it towards them.
    """
    said = torch.stack([logits.softmax(1) for logits in copies])  # copies N V
    together = said.detach().mean(0).pow(1 / temperature)
    wanted = together / together.sum(1, keepdim=True)
    return (said - wanted).square().sum(2).mean()
