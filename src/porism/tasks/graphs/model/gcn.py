"""GCN: graph convolutions in a row.

h[0] = x,   h[l] = relu(Ahat drop(h[l-1]) W[l] + b[l]),   logits = Ahat drop(h[L-1]) W[L] + b[L]
"""

from torch import Tensor

from porism.layers.gcn import Propagated, SparseFeatures
from porism.layers.gcn.functional import project, propagate
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import AnyGraph, MappedGraph
from porism.tasks.graphs.model.base import GraphModel


class GCN(GraphModel):
    """Every layer aggregates the neighbours of each node. Kipf and Welling, 2017."""

    def states(self, x: Features | Propagated, graph: AnyGraph) -> list[Tensor]:
        states = [self._layer(0, x if isinstance(x, Propagated) else self.drop_features(x), graph)]
        for index in range(1, len(self.layers)):
            states[-1] = states[-1].relu()
            states.append(self._layer(index, self.drop(states[-1]), graph))
        return states

    def _layer(self, index: int, x: Features | Propagated, graph: AnyGraph) -> Tensor:
        if isinstance(graph, MappedGraph) or isinstance(x, MappedFeatures):
            assert not isinstance(x, Propagated)  # of a graph in memory
            return self._layer_of_mapped(index, x, graph)
        out: Tensor = self.layers[index](x, graph)
        return out

    def _layer_of_mapped(self, index: int, x: Features, graph: AnyGraph) -> Tensor:
        """Ahat (x W) + b, where x or the edges are read some rows at a time, and x W is in memory: (N, H)."""
        assert not self.training, "a step reads the features and neighbours of its own nodes"
        layer, recipe = self.convolution(index), self.recipe
        projected = self._projected(x, layer.lin.weight)
        how = recipe.normalization, recipe.add_self_loops, projected.dtype
        if isinstance(graph, MappedGraph):
            out = graph.propagation(*how).propagate(projected)
        else:
            out = propagate(projected, graph.propagation(*how))
        return out if layer.bias is None else out + layer.bias

    def _projected(self, x: Features, weight: Tensor) -> Tensor:
        """x W: (N, D) -> (N, H)."""
        if isinstance(x, SparseFeatures):
            return project(x, weight)
        if isinstance(x, Tensor):
            return x @ weight.mT
        # Written where it stays: small parts kept between large blocks would leave the heap in pieces.
        projected, end = weight.new_empty(x.shape[0], weight.shape[0]), 0
        for rows in x.blocks():
            begin, end = end, end + len(rows)
            projected[begin:end] = rows.to(weight) @ weight.mT
        return projected

    def prepare(self, x: Features, graph: AnyGraph) -> Features | Propagated:
        """Dense features without dropout are propagated once for all steps. Sparse ones would become dense."""
        if isinstance(x, Tensor) and self.recipe.input_dropout == 0 and not isinstance(graph, MappedGraph):
            return Propagated.of(x, graph, self.recipe.normalization, self.recipe.add_self_loops)
        return x
