"""What outlives a call belongs to no mode that was on when it was made."""

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from tests.layers.gcn.graphs import drawn
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.layers.gcn.adjacency.normalize import NORMALIZATIONS

# A transform of torch.func calls what torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
N, D, H = 7, 4, 2
EDGES = drawn(N)[0]
Call = Callable[[], Any]


def _under(mode: Callable[[], AbstractContextManager[Any]]) -> Callable[[Call], None]:
    def enter(call: Call) -> None:
        with mode():
            call()

    return enter


def _transformed(transform: Callable[..., Any]) -> Callable[[Call], None]:
    def enter(call: Call) -> None:
        def beside(z: Tensor) -> Tensor:
            call()
            return z.sum()

        transform(beside)(torch.ones(2, 3))

    return enter


def _both(call: Call) -> None:
    with torch.inference_mode():
        _transformed(torch.vmap)(lambda: _transformed(torch.func.grad)(call))


MODES: dict[str, Callable[[Call], None]] = {
    "grad": _transformed(torch.func.grad),
    "vmap": _transformed(torch.vmap),
    "jvp": _transformed(lambda f: lambda z: torch.func.jvp(f, (z,), (z,))),
    "functionalize": _transformed(torch.func.functionalize),
    "fake": _under(lambda: FakeTensorMode(allow_non_fake_inputs=True)),
    "inference": _under(torch.inference_mode),
    "meta by default": _under(lambda: torch.device("meta")),
    "counting": lambda call: void(count(call)),
    "vmap in inference, grad in vmap": _both,
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def void(_: Any) -> None: ...


def tensors_of(kept: Any) -> Iterator[Tensor]:
    """Those that an object holds, however deep."""
    if isinstance(kept, Tensor):
        yield kept
    elif isinstance(kept, (tuple, list)):
        for part in kept:
            yield from tensors_of(part)
    elif isinstance(kept, dict):
        yield from tensors_of(list(kept.values()))
    elif hasattr(kept, "__dict__"):
        yield from tensors_of(vars(kept))


def assert_plain(kept: Any) -> None:
    held = list(tensors_of(kept))
    assert held
    for tensor in held:
        assert type(tensor) is Tensor
        assert tensor.device.type == "cpu"
        assert not tensor.is_inference()
        assert not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    pickle.loads(pickle.dumps(kept))
    copy.deepcopy(kept)


def trained(x: Any, graph: Graph) -> list[Tensor]:
    torch.manual_seed(0)
    layer = GraphConvolution(D, H)
    y = layer(x, graph)
    y.square().sum().backward()
    assert layer.lin.weight.grad is not None
    return [y, layer.lin.weight.grad]


@pytest.fixture
def graph() -> Graph:
    edges, weights = drawn(N)
    return Graph(edges, weights, num_nodes=N)


X = torch.randn(N, D, generator=torch.Generator().manual_seed(0))


@each_mode
def test_a_graph_first_used_in_a_mode_keeps_plain_tensors(mode: Callable[[Call], None], graph: Graph) -> None:
    def use() -> None:
        for normalization in NORMALIZATIONS:
            graph.propagation(normalization)
        graph.propagation(add_self_loops=False, dtype=torch.float64)
        _ = graph.neighbors(), graph.digest

    mode(use)
    assert_plain(graph)
    edges, weights = drawn(N)
    for actual, expected in zip(trained(X, graph), trained(X, Graph(edges, weights, num_nodes=N)), strict=True):
        assert torch.equal(actual, expected)


@each_mode
def test_what_is_made_in_a_mode_is_plain_and_can_be_trained_with(mode: Callable[[Call], None]) -> None:
    edges, weights = drawn(N)
    made: list[Any] = []

    def make() -> None:
        made.extend([Graph(edges, weights, num_nodes=N), SparseFeatures.from_dense(X)])

    mode(make)
    for kept in made:
        assert_plain(kept)
    graph, sparse = made[:2]
    for actual, expected in zip(trained(sparse, graph), trained(X, graph), strict=True):
        assert torch.allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize(
    "mode", [MODES[name] for name in MODES if name != "fake"], ids=[n for n in MODES if n != "fake"]
)
def test_features_propagated_in_a_mode_can_be_trained_with(mode: Callable[[Call], None], graph: Graph) -> None:
    made: list[Propagated] = []
    mode(lambda: made.append(Propagated.of(X, graph)))
    assert_plain(made[0])
    for actual, expected in zip(trained(made[0], graph), trained(X, graph), strict=True):
        assert torch.allclose(actual, expected, atol=1e-5)


def test_a_graph_moved_in_inference_mode_can_be_trained_with(graph: Graph) -> None:
    graph.propagation()
    with torch.inference_mode():
        features = SparseFeatures.from_dense(X).to(dtype=torch.float64)
        moved = graph.to("meta")
    assert not any(tensor.is_inference() for tensor in (*tensors_of(features), *tensors_of(moved)))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: SparseFeatures.from_dense(x).to_dense(),
        lambda x: Propagated.of(x, Graph(EDGES, num_nodes=N)).output,
        lambda x: Graph(EDGES[:, :D], x[0], num_nodes=N).to_dense(),
        lambda x: Graph(x[:2].long(), num_nodes=N).to_dense(),
    ],
    ids=["features", "propagated", "weights", "edges"],
)
def test_tensors_that_stand_for_others_are_refused(make: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ShapeError, match="inside a transform of torch.func, where its numbers cannot be read"):
        torch.vmap(make)(torch.ones(3, N, D))
