"""Nets that label nodes: graph convolutions one behind the other.

h[0] = x,   h[l] = relu(Ahat drop(h[l-1]) W[l] + b[l]),   logits = Ahat drop(h[L-1]) W[L] + b[L]
"""

from torch import Tensor

from porism.layers.gcn import Graph, Propagated
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.model.base import GraphModel


class ConvolvingModel(GraphModel):
    """A node hears its neighbours in every layer."""

    def states(self, x: Features | Propagated, graph: Graph) -> list[Tensor]:
        states = [self.layers[0](x if isinstance(x, Propagated) else self.drop_features(x), graph)]
        for layer in self.layers[1:]:
            states[-1] = states[-1].relu()
            states.append(layer(self.drop(states[-1]), graph))
        return states

    def prepare(self, x: Features, graph: Graph) -> Features | Propagated:
        """What dropout leaves alone is spread over the graph once and for all. Sparse features would fill up by it."""
        if isinstance(x, Tensor) and self.recipe.input_dropout == 0:
            return Propagated.of(x, graph, self.recipe.layer_normalization)
        return x
