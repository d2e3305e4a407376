"""Features that have been spread over the graph already. Those of a first layer do not change: once is enough."""

from typing import NamedTuple

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.function import propagate
from porism.layers.gcn.graph import Graph


class Propagated(NamedTuple):
    """Ahat x, and the normalisation it was spread under. A convolution has only the product with W left to do.

    >>> graph, x = Graph.from_edges(torch.tensor([[0, 1], [1, 0]])), torch.randn(2, 5)
    >>> once, layer = Propagated.of(x, graph), GraphConvolution(5, 3)
    >>> torch.allclose(layer(once, graph), layer(x, graph), atol=1e-6)
    True
    """

    answer: Tensor
    normalisation: str
    self_loops: bool

    @classmethod
    def of(cls, x: Tensor, graph: Graph, normalisation: str = "symmetric", self_loops: bool = True) -> "Propagated":
        if x.requires_grad:
            raise ShapeError(
                "gcn: x asks for a gradient, so it changes, and Ahat x with it. "
                "Give x to the layer, or x.detach() here."
            )
        spread = propagate(x, graph.propagation(normalisation, self_loops, x.dtype))
        return cls(spread, normalisation, self_loops)

    def check(self, normalisation: str, self_loops: bool) -> None:
        """Refuses what was spread for another layer."""
        for name, has, wanted in (
            ("normalisation", self.normalisation, normalisation),
            ("self_loops", self.self_loops, self_loops),
        ):
            if has != wanted:
                raise ShapeError(
                    f"gcn: x was propagated with {name}={has!r}, and the layer has {name}={wanted!r}. "
                    "Propagate it again."
                )
