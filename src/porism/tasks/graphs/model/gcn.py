"""GCN: graph convolutions in a row.

h[0] = x,   h[l] = relu(Ahat drop(h[l-1]) W[l] + b[l]),   logits = Ahat drop(h[L-1]) W[L] + b[L]
"""

from torch import Tensor

from porism.layers.gcn import Graph, Propagated
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.model.base import GraphModel


class GCN(GraphModel):
    """Every layer aggregates the neighbours of each node. Kipf and Welling, 2017."""

    def states(self, x: Features | Propagated, graph: Graph) -> list[Tensor]:
        states = [self.layers[0](x if isinstance(x, Propagated) else self.drop_features(x), graph)]
        for layer in self.layers[1:]:
            states[-1] = states[-1].relu()
            states.append(layer(self.drop(states[-1]), graph))
        return states

    def prepare(self, x: Features, graph: Graph) -> Features | Propagated:
        """Dense features without dropout are propagated once for all steps. Sparse ones would become dense."""
        if isinstance(x, Tensor) and self.recipe.input_dropout == 0:
            return Propagated.of(x, graph, self.recipe.normalization, self.recipe.add_self_loops)
        return x
