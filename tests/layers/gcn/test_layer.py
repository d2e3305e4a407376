"""The layer equals the oracle on graphs of every kind, in every order of its products."""

import copy
import pickle
import shutil
from typing import Any

import pytest
import torch
from tests.layers.gcn.graphs import dense, drawn
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures, graph_convolution, naive
from porism.layers.gcn.adjacency.normalize import NORMALIZATIONS
from porism.layers.gcn.functional import project_first
from porism.testing.gradients import relative_error

EXACT = 1e-12
SIZES = (1, 2, 7, 63, 257)
# torch.compile itself calls what torch deprecates.
compiling = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def leaves(N: int, D: int, H: int) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, bias = (torch.randn(size, dtype=torch.float64).requires_grad_() for size in ((N, D), (H, D), (H,)))
    return x, weight, bias


def with_gradients(y: Tensor, variables: tuple[Tensor, ...]) -> list[Tensor]:
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad(y, variables, weights)]


def largest_error(actual: list[Tensor], expected: list[Tensor]) -> float:
    return max(relative_error(a, b) for a, b in zip(actual, expected, strict=True))


@pytest.mark.sweep(6, each="N")
@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
def test_layer_equals_the_oracle(N: int, normalization: str, self_loops: bool, weighted: bool) -> None:
    edges, weights = drawn(N, weighted)
    Ahat = dense(edges, N, weights, normalization, self_loops)
    graph = Graph(edges, weights, num_nodes=N)
    for D, H in ((5, 2), (2, 5)):
        x, weight, bias = leaves(N, D, H)
        actual = graph_convolution(x, graph, weight, bias, normalization=normalization, add_self_loops=self_loops)
        # The oracle's loop over nodes is held to this product by the contract.
        expected = Ahat @ x @ weight.mT + bias
        assert (
            largest_error(with_gradients(actual, (x, weight, bias)), with_gradients(expected, (x, weight, bias)))
            <= EXACT
        )


def test_the_oracle_sums_over_neighbours() -> None:
    edges, weights = drawn(7)
    Ahat = dense(edges, 7, weights, "sym")
    x, weight, bias = leaves(7, 3, 2)
    actual = naive.network(x, Ahat, [(weight, bias), (weight[:, :2], None)])
    assert relative_error(actual, Ahat @ torch.relu(Ahat @ x @ weight.mT + bias) @ weight[:, :2].mT) <= EXACT


@pytest.mark.parametrize(("D", "H"), [(5, 2), (2, 5), (3, 3)])
@pytest.mark.parametrize("requires", ["all", "weights", "x", "none"])
def test_both_orders_give_the_same(monkeypatch: pytest.MonkeyPatch, D: int, H: int, requires: str) -> None:
    edges, weights = drawn(63)
    graph = Graph(edges, weights, num_nodes=63)
    x, weight, bias = leaves(63, D, H)
    x.requires_grad_(requires in ("all", "x"))
    for part in (weight, bias):
        part.requires_grad_(requires in ("all", "weights"))
    variables = tuple(part for part in (x, weight, bias) if part.requires_grad)
    answers = []
    for first in (True, False):
        monkeypatch.setattr("porism.layers.gcn.functional.project_first", lambda *_, first=first: first)
        y = graph_convolution(x, graph, weight, bias)
        answers.append(with_gradients(y, variables) if variables else [y])
    assert largest_error(*answers) <= EXACT


@pytest.mark.parametrize(
    ("D", "H", "learns_weight", "learns_x", "expected"),
    [
        (1433, 16, True, False, True),
        (16, 7, True, True, True),
        (7, 16, True, True, False),
        (64, 64, True, True, True),
        (64, 64, True, False, False),
        (64, 32, True, False, True),
        (64, 33, True, False, False),
        (64, 63, False, False, True),
    ],
)
def test_the_cheaper_order_is_chosen(D: int, H: int, learns_weight: bool, learns_x: bool, expected: bool) -> None:
    assert project_first(D, H, learns_weight, learns_x) is expected


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_sparse_features_equal_dense_ones(normalization: str) -> None:
    edges, weights = drawn(63)
    graph = Graph(edges, weights, num_nodes=63)
    x, weight, bias = leaves(63, 17, 5)
    given = x.detach() * (torch.rand(63, 17) < 0.2)
    actual = graph_convolution(SparseFeatures.from_dense(given), graph, weight, bias, normalization=normalization)
    expected = graph_convolution(given, graph, weight, bias, normalization=normalization)
    assert largest_error(with_gradients(actual, (weight, bias)), with_gradients(expected, (weight, bias))) <= EXACT


@pytest.mark.parametrize("D", [3, 5])
def test_features_propagated_once_serve_every_step(D: int) -> None:
    edges, weights = drawn(7)
    graph = Graph(edges, weights, num_nodes=7)
    x, weight, bias = leaves(7, D, 4)
    once = Propagated.of(x.detach(), graph)
    actual, expected = graph_convolution(once, graph, weight, bias), graph_convolution(x, graph, weight, bias)
    assert largest_error(with_gradients(actual, (weight, bias)), with_gradients(expected, (weight, bias))) <= EXACT


def test_features_propagated_over_another_graph_are_refused() -> None:
    a, b = (Graph(torch.tensor(edges), num_nodes=3) for edges in ([[0, 1], [1, 0]], [[0, 2], [2, 0]]))
    layer, x = GraphConvolution(4, 2), torch.randn(3, 4)
    once = Propagated.of(x, a)
    for other in (b, Graph(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), num_nodes=3)):
        with pytest.raises(ShapeError, match="x was propagated over another graph. Propagate it again"):
            layer(once, other)
    with pytest.raises(ShapeError, match="x was propagated over another graph"):
        layer(Propagated(once.output, once.normalization), a)
    with pytest.raises(ShapeError, match=r"x is \(3, 4\), expected \(4, D\)"):
        Propagated.of(x, Graph(torch.tensor([[0, 1], [1, 0]]), num_nodes=4))


def test_propagated_features_know_their_graph_wherever_it_goes() -> None:
    # Each pair once: sums of more weights depend on their order.
    edges = drawn(7)[0].unique(dim=1)
    weights = torch.rand(edges.shape[1])
    graph, layer, x = Graph(edges, weights, num_nodes=7), GraphConvolution(4, 2), torch.randn(7, 4)
    once = Propagated.of(x, graph)
    expected = layer(once, graph)
    for same in (
        copy.deepcopy(graph),
        pickle.loads(pickle.dumps(graph)),
        graph.to("cpu"),
        # The order of edges says nothing.
        Graph(edges.flip(1), weights.flip(0), num_nodes=7),
    ):
        assert torch.equal(layer(once, same), expected)
    for again in (copy.deepcopy(once), pickle.loads(pickle.dumps(once)), once._replace(output=once.output.clone())):
        assert torch.equal(layer(again, graph), expected)
    assert graph.to("meta").digest is graph.digest
    with torch.autocast("cpu", torch.bfloat16):
        assert relative_error(layer(once, graph).float(), expected) <= 2e-2
        with pytest.raises(ShapeError, match="over another graph"):
            layer(once, Graph(edges, num_nodes=7))


@pytest.mark.parametrize("part", ["x", "weight", "bias"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_operands_on_another_device_are_refused(part: str, kind: str) -> None:
    edges, _ = drawn(7)
    graph, x, operands = (
        Graph(edges, num_nodes=7),
        torch.randn(7, 4),
        {"weight": torch.randn(2, 4), "bias": torch.ones(2)},
    )
    given: Any = {"dense": x, "sparse": SparseFeatures.from_dense(x), "propagated": Propagated.of(x, graph)}[kind]
    if part == "x":
        given = given._replace(output=x.to("meta")) if isinstance(given, Propagated) else given.to("meta")
    else:
        operands[part] = operands[part].to("meta")
    with pytest.raises(ShapeError, match="on meta.* on cpu|on cpu.* on meta"):
        graph_convolution(given, graph, operands["weight"], operands["bias"])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("part", ["x", "weight", "bias", "all"])
def test_what_is_no_floating_number_is_refused(dtype: torch.dtype, part: str) -> None:
    edges, _ = drawn(7)
    operands = {"x": torch.ones(7, 4), "weight": torch.ones(2, 4), "bias": torch.ones(2)}
    operands = {name: x.to(dtype) if part in (name, "all") else x for name, x in operands.items()}
    with pytest.raises(ShapeError, match=f"is {dtype}, expected one of float32"):
        graph_convolution(operands["x"], Graph(edges, num_nodes=7), operands["weight"], operands["bias"])


@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_float64_stays_float64_under_autocast_and_never_mixes(kind: str) -> None:
    edges, weights = drawn(7)
    graph, layer, x = Graph(edges, weights, num_nodes=7), GraphConvolution(4, 2).double(), torch.randn(7, 4).double()
    given: Any = {"dense": x, "sparse": SparseFeatures.from_dense(x), "propagated": Propagated.of(x, graph)}[kind]
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(given, graph)
        with pytest.raises(ShapeError, match=r"x is torch\.float64, weight is torch\.float32, \w+ one type"):
            layer.float()(given, graph)
    assert y.dtype == torch.float64
    assert relative_error(y, layer.double()(x, graph)) <= 1e-6


@pytest.mark.parametrize(("N", "D", "H"), [(1, 1, 1), (1, 3, 1), (5, 1, 4), (5, 4, 1), (3, 0, 2), (3, 2, 0)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_a_graph_without_edges_and_sizes_of_one_or_none(N: int, D: int, H: int, kind: str) -> None:
    graph = Graph(torch.zeros(2, 0, dtype=torch.int64), num_nodes=N)
    x, weight, bias = leaves(N, D, H)
    fixed = x.detach()
    given: Any = {"dense": x, "sparse": SparseFeatures.from_dense(fixed), "propagated": Propagated.of(fixed, graph)}[
        kind
    ]
    variables = (weight, bias)
    actual = with_gradients(graph_convolution(given, graph, weight, bias), variables)
    expected = with_gradients(fixed @ weight.mT + bias, variables)
    assert all(torch.allclose(a, b, rtol=EXACT, atol=EXACT) for a, b in zip(actual, expected, strict=True))


@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
@pytest.mark.parametrize(("D", "H"), [(5, 2), (2, 5)])
def test_an_answer_may_be_changed_in_place(kind: str, D: int, H: int) -> None:
    edges, weights = drawn(7)
    graph = Graph(edges, weights, num_nodes=7)
    x, weight, bias = leaves(7, D, H)
    fixed = x.detach()
    given: Any = {"dense": x, "sparse": SparseFeatures.from_dense(fixed), "propagated": Propagated.of(fixed, graph)}[
        kind
    ]
    actual = graph_convolution(given, graph, weight, bias).mul_(2).relu_()
    expected = (graph_convolution(given, graph, weight, bias) * 2).relu()
    variables = (weight, bias)
    assert largest_error(with_gradients(actual, variables), with_gradients(expected, variables)) <= EXACT


def test_a_graph_learns_nothing_and_keeps_nothing() -> None:
    """The weights of a graph are no parameters, and what a layer computes leaves them as they are."""
    edges, weights = drawn(7)
    graph = Graph(edges, weights, num_nodes=7)
    before = graph.propagation(dtype=torch.float64).there.values.clone()
    layer = GraphConvolution(3, 2, dtype=torch.float64)
    layer(torch.randn(7, 3, dtype=torch.float64), graph).sum().backward()
    assert torch.equal(graph.propagation(dtype=torch.float64).there.values, before)
    assert set(layer.state_dict()) == {"lin.weight", "bias"}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_autocast_answers_in_its_type(kind: str) -> None:
    edges, _ = drawn(7)
    graph, layer, x = Graph(edges, num_nodes=7), GraphConvolution(3, 2), torch.randn(7, 3)
    given: Any = SparseFeatures.from_dense(x) if kind == "sparse" else x
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(given, graph)
    assert y.dtype == torch.bfloat16
    assert relative_error(y.float(), layer(x, graph)) <= 2e-2
    y.sum().backward()
    assert layer.lin.weight.grad is not None
    assert layer.lin.weight.grad.dtype == torch.float32


def assert_network_compiles(kind: str, backend: str) -> None:
    torch.compiler.reset()
    edges, weights = drawn(7)
    graph = Graph(edges, weights, num_nodes=7)
    first, second = GraphConvolution(6, 3).double(), GraphConvolution(3, 2).double()
    x = torch.randn(7, 6, dtype=torch.float64)
    given: Any = {"dense": x, "sparse": SparseFeatures.from_dense(x), "propagated": Propagated.of(x, graph)}[kind]

    def scores() -> Tensor:
        answer: Tensor = second(torch.relu(first(given, graph)), graph)
        return answer

    variables = (*first.parameters(), *second.parameters())
    compiled = torch.compile(scores, fullgraph=True, backend=backend)
    assert largest_error(with_gradients(compiled(), variables), with_gradients(scores(), variables)) <= EXACT


@pytest.mark.sweep(1)
@compiling
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_a_network_compiles_whole(kind: str) -> None:
    assert_network_compiles(kind, "aot_eager")


@pytest.mark.sweep(0)  # a C++ compiler takes ten seconds
@compiling
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_inductor_compiles_a_network_whole(kind: str) -> None:
    assert_network_compiles(kind, "inductor")


def test_a_copy_of_a_layer_and_its_graph_stand_alone() -> None:
    edges, _ = drawn(7)
    graph, layer, x = Graph(edges, num_nodes=7), GraphConvolution(3, 2), torch.randn(7, 3)
    twin, other = copy.deepcopy(layer), copy.deepcopy(graph)
    assert torch.equal(twin(x, other), layer(x, graph))
    assert repr(layer) == "GraphConvolution(3, 2)"
