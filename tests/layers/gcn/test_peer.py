"""The layer gives what PyTorch Geometric's GCNConv gives."""

from typing import Any

import pytest
import torch
from tests.layers.gcn.graphs import drawn

from porism.layers.gcn import Graph, GraphConvolution
from porism.testing.gradients import relative_error

geometric = pytest.importorskip("torch_geometric", reason="the peer is an extra: pip install 'porism[graphs]'")

CLOSE = 1e-5


def peers(D: int, H: int) -> tuple[GraphConvolution, Any]:
    torch.manual_seed(0)
    from torch_geometric.nn import GCNConv

    peer = GCNConv(D, H)
    torch.nn.init.normal_(peer.bias)
    ours = GraphConvolution(D, H)
    ours.load_state_dict(peer.state_dict(), strict=True)
    return ours, peer


@pytest.mark.parametrize("N", [1, 2, 7, 63, 257])
@pytest.mark.parametrize(("D", "H"), [(9, 4), (4, 9)])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
def test_answers_and_gradients_are_the_peers(N: int, D: int, H: int, weighted: bool) -> None:
    edges, weights = drawn(N, weighted)
    # Of two loops at one node the peer takes the last, ours their sum.
    alone = (edges[0] != edges[1]) | (torch.arange(edges.shape[1]) == edges.shape[1] - 1)
    edges, weights = edges[:, alone], None if weights is None else weights[alone].float()
    ours, peer = peers(D, H)
    x = torch.randn(N, D, requires_grad=True)
    found = ours(x, Graph(edges, weights, num_nodes=N))
    wanted = peer(x, edges, weights)
    assert relative_error(found, wanted) <= CLOSE
    push = torch.randn_like(wanted)
    dx, dW, db = torch.autograd.grad(found, [x, *ours.parameters()], push)
    peer_dx, peer_db, peer_dW = torch.autograd.grad(wanted, [x, peer.bias, peer.lin.weight], push)
    for a, b in ((dx, peer_dx), (dW, peer_dW.T), (db, peer_db)):
        assert relative_error(a, b) <= CLOSE


def test_a_graph_is_made_of_its_data() -> None:
    edges, weights = drawn(7)
    from torch_geometric.data import Data

    assert weights is not None
    found = Graph.from_data(Data(edge_index=edges, edge_weight=weights, num_nodes=7))
    assert torch.equal(found.to_dense(), Graph(edges, weights, num_nodes=7).to_dense())
    assert Graph.from_data(Data(edge_index=edges, num_nodes=9)).num_nodes == 9
