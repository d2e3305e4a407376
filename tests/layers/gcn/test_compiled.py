"""A compiled layer answers for the graph it is given, whichever it was compiled with."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.gcn.graphs import drawn, random_graph
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.layers.gcn.functional import propagate
from porism.testing.gradients import relative_error

EXACT = 1e-12
# torch.compile itself calls what torch deprecates.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.sample(5)]

A = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
B = torch.tensor([[0, 2, 0, 1], [2, 0, 1, 0]])
KINDS: dict[str, Callable[[Tensor, Graph], Any]] = {
    "dense": lambda x, _: x,
    "sparse": lambda x, _: SparseFeatures.from_dense(x),
    "propagated": Propagated.of,
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()
    torch.manual_seed(0)


def compiled(target: Any, **options: Any) -> Any:
    return torch.compile(target, backend="aot_eager", fullgraph=True, **options)


def with_gradients(y: Tensor, layer: nn.Module) -> list[Tensor]:
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad(y, list(layer.parameters()), weights)]


def assert_same(actual: list[Tensor], expected: list[Tensor]) -> None:
    assert max(relative_error(a, b) for a, b in zip(actual, expected, strict=True)) <= EXACT


def test_a_second_graph_gets_its_own_answer() -> None:
    a, b = Graph(A), Graph(B)
    layer, x = GraphConvolution(4, 3).double(), torch.randn(3, 4, dtype=torch.float64)
    fast = compiled(layer)
    for graph in (a, b, a):
        assert_same(with_gradients(fast(x, graph), layer), with_gradients(layer(x, graph), layer))


def test_a_graph_that_a_module_holds_may_be_replaced() -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.graph = GraphConvolution(4, 3).double(), Graph(A)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x, self.graph)
            return y

    module, x = Held(), torch.randn(3, 4, dtype=torch.float64)
    fast = compiled(module)
    for edges in (A, B, A.flip(0)[:, :3]):
        module.graph = Graph(edges, num_nodes=3)
        assert_same(with_gradients(fast(x), module), with_gradients(module(x), module))


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("kind", "dynamic"), [("dense", None), ("sparse", None), ("propagated", None), ("dense", True)], ids=str
)
def test_one_compiled_layer_serves_more_graphs_than_the_compiler_would_compile_for(
    kind: str, dynamic: bool | None
) -> None:
    """Of several sizes, directed and not, weighted and not, none of them used before: few compilations for all."""
    counter = CompileCounterWithBackend("aot_eager")
    layer = GraphConvolution(6, 3).double()
    fast = torch.compile(layer, backend=counter, fullgraph=True, dynamic=dynamic)
    graphs = 3 * torch._dynamo.config.recompile_limit
    for turn in range(graphs):
        N = 4 + turn % 5
        graph = random_graph(N, turn, directed=turn % 2 == 0, weighted=turn % 3 == 0)
        x = torch.randn(N, 6, dtype=torch.float64) * (torch.rand(N, 6) < 0.5)
        actual = with_gradients(fast(KINDS[kind](x, graph), graph), layer)
        assert_same(actual, with_gradients(layer(x, graph), layer))
    assert counter.frame_count <= 6


def test_beyond_the_compilers_limit_it_refuses_and_never_answers_wrongly() -> None:
    layer, refused = GraphConvolution(6, 3).double(), 0
    fast = compiled(layer, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for turn in range(5):
            graph, x = random_graph(4 + turn, turn), torch.randn(4 + turn, 6, dtype=torch.float64)
            try:
                actual = fast(x, graph)
            except torch._dynamo.exc.FailOnRecompileLimitHit:
                refused += 1
            else:
                assert_same([actual], [layer(x, graph)])
    assert refused > 0


def test_two_normalizations_in_one_compiled_net() -> None:
    first = GraphConvolution(4, 3, normalization="rw").double()
    second = GraphConvolution(3, 2, add_self_loops=False, normalization="softmax").double()
    net = nn.ModuleList([first, second])

    def scores(x: Tensor, graph: Graph) -> Tensor:
        y: Tensor = second(first(x, graph).relu(), graph)
        return y

    fast = compiled(scores)
    for turn in range(12):
        graph, x = random_graph(7, turn), torch.randn(7, 4, dtype=torch.float64)
        assert_same(with_gradients(fast(x, graph), net), with_gradients(scores(x, graph), net))


def test_a_graph_that_cannot_be_normalised_is_refused_by_the_compiled_layer_too() -> None:
    layer, x = GraphConvolution(4, 3, normalization="rw"), torch.randn(3, 4)
    fast = compiled(layer)
    fast(x, Graph(A))
    with pytest.raises(Exception, match="the weights of the edges to node 1 sum to -1"):
        fast(x, Graph(A, torch.tensor([-3.0, 1.0, 1.0, 1.0])))


def test_propagated_features_are_held_against_the_graph_they_come_with() -> None:
    a, b = Graph(A), Graph(B)
    layer, x = GraphConvolution(4, 3), torch.randn(3, 4)
    fast = compiled(layer)
    once = Propagated.of(x, a)
    expected = layer(once, a)
    assert torch.equal(fast(once, a), expected)
    with pytest.raises(RuntimeError, match="x was propagated over another graph"):
        fast(once, b)
    assert torch.equal(fast(once, copy.deepcopy(a)), expected)
    assert torch.equal(fast(Propagated.of(x, b), b), layer(Propagated.of(x, b), b))


def test_spreading_compiles_by_itself() -> None:
    def spread(x: Tensor, graph: Graph) -> Tensor:
        return propagate(x, graph.propagation("rw", dtype=x.dtype)).lerp(x, 0.1)

    fast = compiled(spread)
    for turn in range(12):
        graph, x = random_graph(7, turn), torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
        actual, expected = (torch.autograd.grad(way(x, graph).square().sum(), x)[0] for way in (fast, spread))
        assert relative_error(actual, expected) <= EXACT


def test_weights_of_edges_are_not_remembered_either() -> None:
    """Graphs of one pattern differ in nothing but their weights."""
    edges, _ = drawn(7)
    layer, x = GraphConvolution(4, 3).double(), torch.randn(7, 4, dtype=torch.float64)
    fast = compiled(layer)
    for turn in range(12):
        weights = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(turn))
        graph = Graph(edges, weights, num_nodes=7)
        assert_same([fast(x, graph)], [layer(x, graph)])
