"""Features that have been spread over the graph already. Those of a first layer do not change: once is enough."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.function import propagate
from porism.layers.gcn.graph import Graph
from porism.layers.gcn.modes import check_numbers, outside_modes
from porism.layers.operands import check_operands, has_values


class Propagated(NamedTuple):
    """Ahat x, and what it was spread over: a convolution has only the product with W left to do.

    >>> graph, x = Graph.from_edges(torch.tensor([[0, 1], [1, 0]])), torch.randn(2, 5)
    >>> once, layer = Propagated.of(x, graph), GraphConvolution(5, 3)
    >>> torch.allclose(layer(once, graph), layer(x, graph), atol=1e-6)
    True

    It belongs to its graph, told by the graph's digest: the same graph moved to another device, copied, pickled or made
    again of the same edges and weights is the same graph, any other is refused. One that was made by hand, without a
    digest, belongs to none.
    """

    answer: Tensor
    normalisation: str
    self_loops: bool
    digest: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, graph: Graph, normalisation: str = "symmetric", self_loops: bool = True) -> "Propagated":
        check_operands("gcn", x=x)
        if x.requires_grad:
            raise ShapeError(
                "gcn: x asks for a gradient, so it changes, and Ahat x with it. "
                "Give x to the layer, or x.detach() here."
            )
        if not x.is_meta:
            check_numbers("x is", x)
        if x.dim() != 2 or len(x) != graph.nodes:
            raise ShapeError(
                f"gcn: x is {tuple(x.shape)}, wanted ({graph.nodes}, D): a row for each of the graph's {graph.nodes} "
                "nodes. Give the features of all nodes, in the order of their numbers."
            )
        propagation = graph.propagation(normalisation, self_loops, x.dtype)
        return cls(outside_modes(propagate, x, propagation), normalisation, self_loops, graph.digest)

    def check(self, normalisation: str, self_loops: bool, graph: Graph) -> None:
        """Refuses what was spread for another layer, or over another graph."""
        for name, has, wanted in (
            ("normalisation", self.normalisation, normalisation),
            ("self_loops", self.self_loops, self_loops),
        ):
            if has != wanted:
                raise ShapeError(
                    f"gcn: x was propagated with {name}={has!r}, and the layer has {name}={wanted!r}. "
                    "Propagate it again."
                )
        if self.digest is graph.digest:
            return
        refusal = "gcn: x was propagated over another graph. Propagate it again, with Propagated.of(x, graph)."
        if self.digest is None:
            raise ShapeError(refusal)
        if has_values(self.digest):
            if not outside_modes(torch.equal, self.digest, graph.digest):
                raise ShapeError(refusal)
        else:
            torch._assert_async((self.digest == graph.digest).all(), refusal)
