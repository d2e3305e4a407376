"""First every node says what it thinks of itself, then opinions spread: far, and without smoothing everything out.

h = relu(drop(x) W1 + b1),   z[0] = drop(h) W2 + b2,   z[k] = (1 - a) Ahat z[k-1] + a z[0]

Each step hears the node's own opinion again, so z[k] goes to a limit that still depends on the node, however many hops.
Gasteiger, Bojchevski and Guennemann, Predict then Propagate, 2019. Spreading happens at the width of the classes, so a
hop costs 2 E V operations and no parameter.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.layers.gcn.functional import project, propagate
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.model.base import GraphModel


class SpreadingModel(GraphModel):
    """A node hears only itself in the layers, and the whole neighbourhood after them."""

    def states(self, x: Features | Propagated, graph: Graph) -> list[Tensor]:
        *hidden, own = self._opinions(x)
        return [*hidden, self._spread(own, graph)]

    def copies(self, x: Features | Propagated, graph: Graph, count: int) -> Sequence[Tensor]:
        # Opinions side by side spread in one product: what a neighbour has to say is fetched once for all of them.
        side_by_side = torch.cat([self._opinions(x)[-1] for _ in range(count)], 1)
        return self._spread(side_by_side, graph).chunk(count, 1)

    def _opinions(self, x: Features | Propagated) -> list[Tensor]:
        """What every layer hands on before anybody is heard."""
        assert not isinstance(x, Propagated)
        states = [self._affine(0, self.drop_features(x))]
        for place in range(1, len(self.layers)):
            states[-1] = states[-1].relu()
            states.append(self._affine(place, self.drop(states[-1])))
        return states

    def _affine(self, place: int, h: Features) -> Tensor:
        layer = self.convolution(place)
        assert layer.bias is not None
        return (project(h, layer.weight) if isinstance(h, SparseFeatures) else h @ layer.weight) + layer.bias

    def _spread(self, own: Tensor, graph: Graph) -> Tensor:
        propagation = graph.propagation(self.recipe.layer_normalization, dtype=own.dtype)
        z = own
        for _ in range(self.recipe.power_iterations):
            # (1 - a) Ahat z + a z[0]
            z = torch.lerp(propagate(z, propagation), own, self.recipe.teleport_probability)
        return z
