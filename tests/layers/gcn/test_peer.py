"""The layer computes what PyTorch Geometric's GCNConv computes, with every option of it."""

from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.gcn.graphs import drawn
from torch import Tensor

from porism.layers.gcn import Graph, GraphConvolution
from porism.testing.gradients import relative_error

needs.package("torch_geometric", reason="the peer is an extra: pip install 'porism[graphs]'")
geometric = needs.lazy("torch_geometric")

CLOSE = 1e-12
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "improved": {"improved": True},
    "no self-loops": {"add_self_loops": False},
    "improved without self-loops": {"improved": True, "add_self_loops": False},
    "not normalized": {"normalize": False},
    "no bias": {"bias": False},
    "cached": {"cached": True},
    "cached, improved": {"cached": True, "improved": True},
    "target to source": {"flow": "target_to_source"},
    "target to source, improved": {"flow": "target_to_source", "improved": True},
}


def peers(D: int, H: int, **options: Any) -> tuple[GraphConvolution, Any]:
    torch.manual_seed(0)
    peer = geometric.nn.GCNConv(D, H, **options).double()
    if peer.bias is not None:
        torch.nn.init.normal_(peer.bias)
    ours = GraphConvolution(D, H, **options).double()
    ours.load_state_dict(peer.state_dict(), strict=True)
    return ours, peer


def comparable(N: int, weighted: bool) -> tuple[Tensor, Tensor | None]:
    """Edges with one self-loop at most a node: of two the peer takes the last, ours their sum."""
    edges, weights = drawn(N, weighted)
    alone = (edges[0] != edges[1]) | (torch.arange(edges.shape[1]) == edges.shape[1] - 1)
    return edges[:, alone], None if weights is None else weights[alone]


def assert_equal_with_gradients(ours: GraphConvolution, peer: Any, x: Tensor, actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert relative_error(actual, expected) <= CLOSE
    push = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(actual, [x, *ours.parameters()], push),
        torch.autograd.grad(expected, [x, *peer.parameters()], push),
        strict=True,
    ):
        assert relative_error(a, b) <= CLOSE


@pytest.mark.sweep(4, each="N")
@pytest.mark.parametrize("N", [1, 2, 7, 63])
@pytest.mark.parametrize(("D", "H"), [(9, 4), (4, 9)])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_outputs_and_gradients_are_the_peers(N: int, D: int, H: int, weighted: bool, options: dict[str, Any]) -> None:
    edges, weights = comparable(N, weighted)
    ours, peer = peers(D, H, **options)
    x = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    given = weights
    if weights is None and options.get("improved"):
        # GCNConv documents A + 2 I and computes A + I for edges without weights. Weights of 1 are the same graph.
        given = torch.ones(edges.shape[1], dtype=torch.float64)
    for _ in range(2):
        assert_equal_with_gradients(ours, peer, x, ours(x, edges, weights), peer(x, edges, given))
    graph = Graph(edges, weights, num_nodes=N)
    assert_equal_with_gradients(ours, peer, x, ours(x, graph), peer(x, edges, given))


# The peer warns of COO, torch of CSR.
@pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant checks)|Converting sparse tensor to CSR:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=["coo", "csr"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize(
    "options",
    [part for name, part in OPTIONS.items() if "target" not in name],
    ids=[n for n in OPTIONS if "tar" not in n],
)
def test_a_sparse_adjacency_matrix_is_taken_as_the_peer_takes_it(
    layout: torch.layout, weighted: bool, options: dict[str, Any]
) -> None:
    """A self-loop is added beside one that the matrix has: there the two of them add up."""
    edges, weights = comparable(63, weighted)
    values = torch.ones(edges.shape[1], dtype=torch.float64) if weights is None else weights
    adj_t = torch.sparse_coo_tensor(edges.flip(0), values, (63, 63)).coalesce()
    ours, peer = peers(5, 3, **options)
    x = torch.randn(63, 5, dtype=torch.float64, requires_grad=True)
    given = adj_t.to_sparse(layout=layout)
    for _ in range(2):
        assert_equal_with_gradients(ours, peer, x, ours(x, given), peer(x, given))


@pytest.mark.parametrize("lead", [(2,), (2, 3)], ids=str)
@pytest.mark.parametrize(("D", "H"), [(9, 4), (4, 9)])
def test_several_sets_of_features_on_one_graph(lead: tuple[int, ...], D: int, H: int) -> None:
    edges, weights = comparable(7, True)
    ours, peer = peers(D, H)
    x = torch.randn(*lead, 7, D, dtype=torch.float64, requires_grad=True)
    assert_equal_with_gradients(ours, peer, x, ours(x, edges, weights), peer(x, edges, weights))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_state_dicts_are_the_peers_both_ways(bias: bool) -> None:
    ours, peer = peers(5, 3, bias=bias)
    assert {name: part.shape for name, part in ours.state_dict().items()} == {
        name: part.shape for name, part in peer.state_dict().items()
    }
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in peer.named_parameters()]
    again = GraphConvolution(5, 3, bias=bias)
    peer.load_state_dict(again.state_dict(), strict=True)
    assert torch.equal(peer.lin.weight, again.lin.weight)


def test_a_graph_is_made_of_its_data() -> None:
    edges, weights = drawn(7)
    Data = geometric.data.Data
    assert weights is not None
    actual = Graph.from_data(Data(edge_index=edges, edge_weight=weights, num_nodes=7))
    assert torch.equal(actual.to_dense(), Graph(edges, weights, num_nodes=7).to_dense())
    assert Graph.from_data(Data(edge_index=edges, num_nodes=9)).num_nodes == 9
