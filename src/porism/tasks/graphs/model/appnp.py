"""APPNP: every node is classified by its own features, then the predictions are propagated by personalised PageRank.

h = relu(drop(x) W1 + b1),   z[0] = drop(h) W2 + b2,   z[k] = (1 - a) Ahat z[k-1] + a z[0]

Each step adds the node's own prediction again, so that z[k] has a limit that depends on the node: no over-smoothing.
Gasteiger, Bojchevski and Guennemann, Predict then Propagate, 2019. Propagation is at the width of the classes, so that
a hop costs 2 E V operations and no parameter.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.layers.gcn.functional import project, propagate
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import AnyGraph
from porism.tasks.graphs.model.base import GraphModel


class APPNP(GraphModel):
    """A multilayer perceptron on each node, then propagation of its logits over many hops."""

    def states(self, x: Features | Propagated, graph: AnyGraph) -> list[Tensor]:
        *hidden, own = self._own_logits(x)
        return [*hidden, self._propagate(own, graph)]

    def copies(self, x: Features | Propagated, graph: AnyGraph, count: int) -> Sequence[Tensor]:
        # The logits of all copies side by side are propagated in one product: neighbours are read once.
        side_by_side = torch.cat([self._own_logits(x)[-1] for _ in range(count)], 1)
        return self._propagate(side_by_side, graph).chunk(count, 1)

    def _own_logits(self, x: Features | Propagated) -> list[Tensor]:
        """The output of every layer, before propagation."""
        assert not isinstance(x, Propagated)
        states = [self._affine(0, self.drop_features(x))]
        for index in range(1, len(self.layers)):
            states[-1] = states[-1].relu()
            states.append(self._affine(index, self.drop(states[-1])))
        return states

    def _affine(self, index: int, h: Features) -> Tensor:
        layer = self.convolution(index)
        assert layer.bias is not None
        assert not isinstance(h, MappedFeatures)  # which neighbours that are drawn read, and this model has none
        weight = layer.lin.weight
        return (project(h, weight) if isinstance(h, SparseFeatures) else linear(h, weight)) + layer.bias

    def _propagate(self, own: Tensor, graph: AnyGraph) -> Tensor:
        assert isinstance(graph, Graph)  # as above
        propagation = graph.propagation(self.recipe.normalization, self.recipe.add_self_loops, own.dtype)
        z = own
        for _ in range(self.recipe.power_iterations):
            # (1 - a) Ahat z + a z[0]
            z = torch.lerp(propagate(z, propagation), own, self.recipe.teleport_probability)
        return z
