"""GCN: graph convolutions in a row.

h[0] = x,   h[l] = relu(Ahat drop(h[l-1]) W[l] + b[l]),   logits = Ahat drop(h[L-1]) W[L] + b[L]
"""

from torch import Tensor

from porism.layers.gcn import Graph, Propagated
from porism.layers.gcn.functional import propagate
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.model.base import GraphModel


class GCN(GraphModel):
    """Every layer aggregates the neighbours of each node. Kipf and Welling, 2017."""

    def states(self, x: Features | Propagated, graph: Graph) -> list[Tensor]:
        states = [self._first(x, graph)]
        for layer in self.layers[1:]:
            states[-1] = states[-1].relu()
            states.append(layer(self.drop(states[-1]), graph))
        return states

    def _first(self, x: Features | Propagated, graph: Graph) -> Tensor:
        if isinstance(x, MappedFeatures):
            return self._first_of_mapped(x, graph)
        out: Tensor = self.layers[0](x if isinstance(x, Propagated) else self.drop_features(x), graph)
        return out

    def _first_of_mapped(self, x: MappedFeatures, graph: Graph) -> Tensor:
        """Ahat (x W) + b, where x is read some rows at a time, and x W is in memory: (N, H)."""
        assert not self.training, "a step reads the features of its own nodes"
        layer, recipe = self.convolution(0), self.recipe
        weight = layer.lin.weight
        # Written where it stays: small parts kept between large blocks would leave the heap in pieces.
        projected, end = weight.new_empty(x.shape[0], weight.shape[0]), 0
        for rows in x.blocks():
            begin, end = end, end + len(rows)
            projected[begin:end] = rows.to(weight) @ weight.mT
        propagation = graph.propagation(recipe.normalization, recipe.add_self_loops, weight.dtype)
        out = propagate(projected, propagation)
        return out if layer.bias is None else out + layer.bias

    def prepare(self, x: Features, graph: Graph) -> Features | Propagated:
        """Dense features without dropout are propagated once for all steps. Sparse ones would become dense."""
        if isinstance(x, Tensor) and self.recipe.input_dropout == 0:
            return Propagated.of(x, graph, self.recipe.normalization, self.recipe.add_self_loops)
        return x
