"""Edges in place of a Graph: every option equals the oracle, and the cache never answers for another graph."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.gcn.graphs import drawn, random_graph
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures, graph_convolution, naive
from porism.layers.gcn.adjacency.edges import Neighbors, neighbors
from porism.layers.gcn.adjacency.gcn_norm import gcn_norm
from porism.layers.gcn.adjacency.normalize import FLOWS, NORMALIZATIONS, Normalization
from porism.layers.gcn.functional import propagate
from porism.testing.gradients import relative_error

EXACT = 1e-12
LOOPS: dict[int, dict[str, bool]] = {0: {"add_self_loops": False}, 1: {}, 2: {"improved": True}}


def by_oracle(edges: Tensor, N: int, weights: Tensor | None, normalization: str, loop_weight: int, flow: str) -> Tensor:
    edges = edges if flow == "source_to_target" else edges.flip(0)
    A = naive.adjacency(edges, N, weights, loop_weight)
    return naive.normalized(A, naive.is_edge(edges, N, loop_weight > 0), normalization)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.mark.sweep(6, each="N")
@pytest.mark.parametrize("N", [1, 2, 7, 63])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("loop_weight", LOOPS)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
def test_edges_and_graph_equal_the_oracle(
    N: int, normalization: str, loop_weight: int, flow: str, weighted: bool
) -> None:
    edges, weights = drawn(N, weighted)
    Ahat = by_oracle(edges, N, weights, normalization, loop_weight, flow)
    options: dict[str, Any] = {"normalization": normalization, "flow": flow, **LOOPS[loop_weight]}
    x, weight, bias = (torch.randn(size, dtype=torch.float64).requires_grad_() for size in ((N, 4), (3, 4), (3,)))
    expected = Ahat @ x @ weight.mT + bias
    push = torch.randn_like(expected)
    slopes = torch.autograd.grad(expected, (x, weight, bias), push)
    graph = Graph(edges, weights, num_nodes=N)
    for actual in (
        graph_convolution(x, edges, weight, bias, weights, **options),
        graph_convolution(x, graph, weight, bias, **options),
    ):
        assert relative_error(actual, expected) <= EXACT
        for a, b in zip(torch.autograd.grad(actual, (x, weight, bias), push), slopes, strict=True):
            assert relative_error(a, b) <= EXACT
    assert relative_error(graph.to_dense(dtype=torch.float64, **options), Ahat) <= EXACT


def test_the_matrix_has_an_entry_for_each_edge_and_node() -> None:
    edges, weights = drawn(7)
    there, back = gcn_norm(edges, weights, 7, Normalization.of(), torch.float64)
    assert there.stored == back.stored == edges.shape[1] + 7
    assert torch.equal(there.to_dense(7).T, back.to_dense(7))


def test_nan_features_reach_neighbors_only() -> None:
    """Entries of weight 0, which stand for self-loops that a node has already, bring in no other row."""
    edges = torch.tensor([[0, 0, 1, 3], [0, 1, 2, 3]])
    x = torch.tensor([[1.0], [float("nan")], [1.0], [1.0]])
    y = graph_convolution(x, edges, torch.ones(1, 1), add_self_loops=True)
    assert y.isnan().flatten().tolist() == [False, True, True, False]


@pytest.mark.parametrize("sparse", [True, False])
def test_without_edges_a_node_keeps_its_own_features(sparse: bool) -> None:
    x = torch.randn(3, 4)
    edges = torch.zeros(2, 0, dtype=torch.int64)
    given = SparseFeatures.from_dense(x) if sparse else x
    for normalization in NORMALIZATIONS:
        y = graph_convolution(given, edges, torch.eye(4), normalization=normalization)
        assert torch.allclose(y, x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8], ids=str)
def test_edges_of_every_whole_type(dtype: torch.dtype) -> None:
    edges, weights = drawn(7)
    layer, x = GraphConvolution(4, 3), torch.randn(7, 4)
    assert torch.equal(layer(x, edges.to(dtype), weights), layer(x, edges, weights))


def test_lower_precision_is_summed_in_float32() -> None:
    edges, _ = drawn(7)
    layer, x = GraphConvolution(4, 3), torch.randn(7, 4)
    for dtype in (torch.bfloat16, torch.float16):
        y = layer.to(dtype)(x.to(dtype), edges)
        assert y.dtype == dtype
        assert relative_error(y.float(), layer.float()(x, edges)) <= 2e-2


MISTAKES: dict[str, tuple[Callable[[Tensor, Tensor], Any], str]] = {
    "loops and no normalization": (
        lambda x, edges: GraphConvolution(4, 3, add_self_loops=True, normalize=False),
        "add_self_loops=True with normalize=False.* Use normalization=None",
    ),
    "two normalizations": (
        lambda x, edges: GraphConvolution(4, 3, normalize=False, normalization="rw"),
        "normalization='rw' with normalize=False",
    ),
    "a name of 0.1": (
        lambda x, edges: GraphConvolution(4, 3, normalization="row"),
        "normalization is 'row'.* 'row' is now 'rw'",
    ),
    "flow": (lambda x, edges: GraphConvolution(4, 3, flow="backwards"), "flow is 'backwards'. Choose from"),
    "unknown nodes": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges + 5),
        "edge_index runs from 5 to 10, and 7 nodes",
    ),
    "an edge a row": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges.T),
        r"edge_index is \(23, 2\), expected \(2, E\)",
    ),
    "weights of others": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges, torch.ones(2)),
        r"edge_weight is \(2,\), expected \(23,\)",
    ),
    "learned weights": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges, torch.ones(23, requires_grad=True)),
        "edge_weight requires a gradient, which this layer does not give",
    ),
    "mapped weights": (
        lambda x, edges: torch.vmap(lambda w: graph_convolution(x, edges, x[:3], None, w))(torch.ones(2, 23)),
        "edge_weight is inside a transform of torch.func",
    ),
    "nan": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges, torch.full((23,), torch.nan)),
        "the weight of edge 0 is nan, expected a finite number",
    ),
    "weights beside a graph": (
        lambda x, edges: GraphConvolution(4, 3)(x, Graph(edges, num_nodes=7), torch.ones(23)),
        "edge_weight beside a Graph",
    ),
    "weights beside adj_t": (
        lambda x, edges: GraphConvolution(4, 3)(x, torch.eye(7).to_sparse(), torch.ones(7)),
        "edge_weight beside a sparse adj_t",
    ),
    "adj_t of others": (
        lambda x, edges: GraphConvolution(4, 3)(x, torch.eye(6).to_sparse()),
        r"adj_t is \(6, 6\), expected \(7, 7\)",
    ),
    "adj_t the other way": (
        lambda x, edges: GraphConvolution(4, 3, flow="target_to_source")(x, torch.eye(7).to_sparse()),
        "flow='target_to_source' with a sparse adj_t",
    ),
    "adj_t by columns": (
        lambda x, edges: GraphConvolution(4, 3)(x, torch.eye(7).to_sparse_csc()),
        "adj_t is torch.sparse_csc, expected COO or CSR",
    ),
    "elsewhere": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges.to("meta")),
        "edge_index is on meta, the weight on cpu. Move it with edge_index.to",
    ),
    "propagated": (
        lambda x, edges: GraphConvolution(4, 3)(Propagated.of(x, Graph(edges, num_nodes=7)), edges),
        "x was propagated, and edge_index is no Graph",
    ),
    "one dimension": (lambda x, edges: GraphConvolution(4, 3)(x[0], edges), r"x is \(4,\), expected \(N, D\)"),
    "half a divisor": (
        lambda x, edges: GraphConvolution(4, 3)(x, edges, torch.linspace(-9, 1, 23)),
        "the weights of the edges to node .* sum to .*, and sym divides by the sum",
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_the_entries_of_a_sparse_matrix_may_be_of_any_type(dtype: torch.dtype) -> None:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    layer, x = GraphConvolution(4, 3, improved=True), torch.randn(3, 4)
    adj_t = torch.sparse_coo_tensor(edges.flip(0), torch.ones(3, dtype=dtype), (3, 3))
    assert torch.allclose(layer(x, adj_t), layer(x, edges), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse (CSC|invariant checks):UserWarning")
@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused(call: Callable[[Tensor, Tensor], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call(torch.randn(7, 4), drawn(7)[0])


def test_a_cached_layer_normalizes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(*args: Any) -> Neighbors:
        made.append(args)
        return neighbors(*args)

    monkeypatch.setattr("porism.layers.gcn.graph.neighbors", counted)
    edges, weights = drawn(7)
    layer, x = GraphConvolution(4, 3, cached=True), torch.randn(7, 4)
    expected = GraphConvolution(4, 3)
    expected.load_state_dict(layer.state_dict())
    for given in (edges, edges.clone(), edges):
        assert torch.allclose(layer(x, given, weights), expected(x, edges, weights), atol=1e-6)
    assert len(made) == 1
    layer.reset_parameters()
    layer(x, edges, weights)
    assert len(made) == 2


@pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant checks):UserWarning")
def test_a_cached_layer_never_answers_for_another_graph() -> None:
    layer = GraphConvolution(4, 3, cached=True).double()
    plain = GraphConvolution(4, 3).double()
    plain.load_state_dict(layer.state_dict())
    edges, weights = drawn(7)
    assert weights is not None
    x = torch.randn(7, 4, dtype=torch.float64)

    def same(x: Tensor, *given: Any) -> None:
        assert relative_error(layer(x, *given), plain(x, *given)) <= EXACT

    same(x, edges, weights)
    same(x, edges)
    same(x, edges, weights * 2)
    same(x, edges.flip(0), weights)
    same(torch.cat([x, x]), edges, weights)
    same(x, edges, weights)
    for change in (lambda: edges[0].fill_(1), lambda: edges.numpy().fill(2), lambda: weights.mul_(torch.rand(23))):
        change()
        same(x, edges, weights)
    adj_t = torch.sparse_coo_tensor(edges.flip(0), weights, (7, 7))
    same(x, adj_t)
    same(x, adj_t.coalesce().to_sparse_csr())
    same(x, 2 * adj_t.coalesce())
    other = random_graph(7, 1)
    same(x, other)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x, edges, weights), layer(x, edges, weights))
    same(x.float().double(), edges, weights)
    layer.float(), plain.float()
    assert relative_error(layer(x.float(), edges, weights), plain(x.float(), edges, weights)) <= 1e-6


@pytest.mark.sweep(1)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_compiled_layer_takes_edges(cached: bool, weighted: bool) -> None:
    torch.compiler.reset()
    layer = GraphConvolution(4, 3, cached=cached).double()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for seed in range(4):
        edges, weights = drawn(7 + seed, weighted, seed)
        x = torch.randn(7 + seed, 4, dtype=torch.float64, requires_grad=True)
        outputs = [layer(x, edges, weights), compiled(x, edges, weights)]
        assert relative_error(outputs[1], outputs[0]) <= EXACT
        slopes = [torch.autograd.grad(y.sin().sum(), [x, *layer.parameters()]) for y in outputs]
        assert max(relative_error(a, b) for a, b in zip(*slopes, strict=True)) <= EXACT


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_several_graphs_are_mapped_in_turns() -> None:
    layer = GraphConvolution(4, 3).double()
    edges = torch.stack([drawn(7, False, seed)[0] for seed in range(3)])
    x = torch.randn(3, 7, 4, dtype=torch.float64)
    expected = torch.stack([layer(one, given) for one, given in zip(x, edges, strict=True)])
    assert relative_error(torch.vmap(layer)(x, edges), expected) <= EXACT

    def loss(x: Tensor, edges: Tensor) -> Tensor:
        return layer(x, edges).sin().sum()

    slopes = torch.vmap(torch.func.grad(loss))(x, edges)
    leaf = x.clone().requires_grad_()
    loss_of_all = torch.stack([loss(one, given) for one, given in zip(leaf, edges, strict=True)]).sum()
    assert relative_error(slopes, torch.autograd.grad(loss_of_all, leaf)[0]) <= EXACT


def test_the_operator_by_itself_has_a_gradient_if_it_has_the_transposed() -> None:
    there, back = random_graph(7, 0).propagation(dtype=torch.float64)
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    operator = torch.ops.porism.csr_product
    y = operator(*there, x, None, *back)
    expected = propagate(x, random_graph(7, 0).propagation(dtype=torch.float64))
    assert torch.equal(y, expected)
    assert torch.equal(*(torch.autograd.grad(part.sin().sum(), x)[0] for part in (y, expected)))
    with pytest.raises(ShapeError, match="needs the transposed matrix for a gradient"):
        operator(*there, x).sum().backward()


def test_weights_of_0_1_load() -> None:
    layer, x = GraphConvolution(4, 3), torch.randn(7, 4)
    weight, bias = torch.randn(4, 3), torch.randn(3)
    for module, prefix in ((layer, ""), (torch.nn.ModuleList([layer]), "0.")):
        module.load_state_dict({f"{prefix}weight": weight, f"{prefix}bias": bias}, strict=True)
    edges, _ = drawn(7)
    assert relative_error(layer(x, edges), Graph(edges, num_nodes=7).to_dense() @ x @ weight + bias) <= 1e-6


def test_a_seed_gives_the_weights_of_0_1() -> None:
    torch.manual_seed(3)
    drawn_then = torch.nn.init.xavier_uniform_(torch.empty(4, 3))
    following = torch.rand(2)
    torch.manual_seed(3)
    layer = GraphConvolution(4, 3)
    assert torch.equal(layer.lin.weight, drawn_then.mT)
    assert torch.equal(torch.rand(2), following)
    assert layer.lin.weight.is_contiguous()
