"""Layers of PyTorch Geometric, on graphs without loops: those that want one a node add them themselves."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from real_model_cases.case import Case


def edges(N: int, E: int) -> Tensor:
    """From every node in turn to the one after it, then to the one after that; 2 E, no edge is a loop.

    >>> edges(3, 5)
    tensor([[0, 1, 2, 0, 1],
            [1, 2, 0, 2, 0]])
    """
    number = torch.arange(E)
    source = number % N
    return torch.stack([source, (source + 1 + number // N % (N - 1)) % N])


def gcn(D: int, H: int) -> nn.Module:
    layer: nn.Module = GCNConv(D, H)
    return layer


def gat(D: int, H: int, A: int) -> nn.Module:
    layer: nn.Module = GATConv(D, H, heads=A)
    return layer


def sage(D: int, H: int) -> nn.Module:
    layer: nn.Module = SAGEConv(D, H)
    return layer


GRAPH = {"x": "N D", "edge_index": edges}
LOOPS = "Nothing. Loops are found by looking at the edges, so it runs on real numbers; one a node is added to the E."
CORA = {"N": 2708, "E": 10556, "D": 1433}

GRAPHS = [
    Case("gcnconv", gcn, GRAPH, {}, published=CORA | {"H": 16}, stays_a_number=LOOPS),
    Case(
        "gatconv", gat, GRAPH, {"H": "hidden width of a head"}, published=CORA | {"H": 8, "A": 8}, stays_a_number=LOOPS
    ),
    Case("sageconv", sage, GRAPH, {}, published=CORA | {"H": 16}, stays_a_number="Nothing. The mean of neighbours."),
]
