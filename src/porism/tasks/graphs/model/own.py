"""A module of the user's own as a model of nodes: (x, edge_index) to logits (N, V)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped_graph import AnyGraph


class OwnGraphModel(nn.Module):
    """Called as layers of PyTorch Geometric are, with edge_weight third where edges have weights."""

    def __init__(self, module: nn.Module, classes: int) -> None:
        super().__init__()
        self.module, self.classes = module, classes
        self._edges: dict[int, tuple[Graph, tuple[Tensor, ...]]] = {}

    def forward(self, x: Features | Propagated, graph: AnyGraph) -> Tensor:
        assert isinstance(x, Tensor)
        assert isinstance(graph, Graph)  # for_own_model samples no neighbours
        logits = self.module(x, *self._edges_of(graph))
        if not isinstance(logits, Tensor) or tuple(logits.shape) != (len(x), self.classes):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
            raise ShapeError(f"graphs: the model's output is {got}, expected {(len(x), self.classes)}: (N, classes).")
        return logits

    def states(self, x: Features | Propagated, graph: AnyGraph) -> list[Tensor]:
        """Of its layers only the last is known."""
        return [self(x, graph)]

    def copies(self, x: Features | Propagated, graph: AnyGraph, count: int) -> Sequence[Tensor]:
        """The logits of several forward passes, each with its own dropout."""
        return [self(x, graph) for _ in range(count)]

    def prepare(self, x: Features, graph: AnyGraph) -> Features:
        return x.to_dense() if isinstance(x, SparseFeatures) else x

    def penalty(self) -> Tensor:
        return torch.zeros((), device=next(self.parameters()).device)

    def _edges_of(self, graph: Graph) -> tuple[Tensor, ...]:
        """edge_index (2, E), from source to target, and edge_weight (E,) where there are weights. Made once."""
        held = self._edges.get(id(graph))
        if held is None:
            held = self._edges[id(graph)] = (graph, edges_of(graph))
        return held[1]


def edges_of(graph: Graph) -> tuple[Tensor, ...]:
    """edge_index (2, E) of a graph without self-loops that it has not, and its weights.

    >>> edges_of(Graph(torch.tensor([[0, 1], [1, 2]])))
    (tensor([[0, 1],
            [1, 2]]),)
    """
    with torch.inference_mode(False), torch.no_grad():
        starts, sources, weights = graph.neighbors(add_self_loops=False)
        targets = torch.repeat_interleave(torch.arange(len(starts) - 1, device=starts.device), starts.diff())
        edge_index = torch.stack([sources.long(), targets])
        return (edge_index,) if weights is None else (edge_index, weights.float())
