"""Elman under torch.func, torch.export, second derivatives and torch's own FLOP counter, beside nn.RNN."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.count import count
from porism.layers import Elman
from porism.testing.gradients import relative_error

T, B, D, H = 5, 3, 4, 6

# torch's transforms and compiler themselves call what torch deprecates.
pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def twins(**options: Any) -> tuple[Elman, nn.RNN]:
    rnn = nn.RNN(D, H, **options)
    layer = Elman(D, H, **{"nonlinearity": "tanh", **options})
    layer.load_state_dict(rnn.state_dict())
    return layer, rnn


def loss(layer: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    y, h = functional_call(layer, parameters, (x,))
    total: Tensor = y.sin().sum() + h.square().sum()
    return total


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in found.items():
        assert relative_error(value, expected[name]) <= 1e-10, name


def test_torch_func_gives_the_gradients_of_nn_rnn() -> None:
    layer, rnn = twins(num_layers=2, bidirectional=True)
    x = torch.randn(T, B, D)
    found, expected = (grad(loss, 1)(module, dict(module.named_parameters()), x) for module in (layer, rnn))
    assert_same(found, expected)


@pytest.mark.parametrize("in_dims", [(None, 0), (0, None), (0, 0)], ids=str)
def test_vmap_equals_a_loop(in_dims: tuple[int | None, int | None]) -> None:
    layer, _ = twins()
    parameters = {name: torch.randn(2, *p.shape) for name, p in layer.named_parameters()}
    if in_dims[0] is None:
        parameters = {name: p[0] for name, p in parameters.items()}
    x = torch.randn(2, T, B, D) if in_dims[1] == 0 else torch.randn(T, B, D)

    def gradient(parameters: dict[str, Tensor], x: Tensor) -> Any:
        return grad(lambda p, x: loss(layer, p, x), (0, 1))(parameters, x)

    found, found_x = vmap(gradient, in_dims)(parameters, x)
    for i in range(2):
        one = {name: p if in_dims[0] is None else p[i] for name, p in parameters.items()}
        expected, expected_x = gradient(one, x if in_dims[1] is None else x[i])
        assert_same({name: p[i] for name, p in found.items()}, expected)
        assert relative_error(found_x[i], expected_x) <= 1e-10


def test_a_change_in_place_inside_a_transform_is_right() -> None:
    layer, _ = twins()
    parameters: dict[str, Tensor] = dict(layer.named_parameters())

    def changed(x: Tensor, in_place: bool) -> Tensor:
        y: Tensor = functional_call(layer, parameters, (x,))[0]
        return (y.mul_(2) if in_place else y * 2).sin().sum()

    x = torch.randn(T, B, D)
    assert relative_error(grad(changed)(x, True), grad(changed)(x, False)) <= 1e-12


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("in_place", [False, True])
def test_second_and_third_derivatives_are_those_of_nn_rnn(nonlinearity: str, in_place: bool) -> None:
    layer, rnn = twins(num_layers=2, nonlinearity=nonlinearity)
    x, hx = torch.randn(T, B, D, requires_grad=True), torch.randn(2, B, H, requires_grad=True)

    def derivatives(module: nn.Module) -> list[Tensor]:
        weights = [x, hx, *(module.get_parameter(f"weight_{kind}_l0") for kind in ("ih", "hh"))]
        y, h = module(x, hx)
        y = y.mul_(1.5) if in_place else y * 1.5
        found: list[Tensor] = []
        total = y.sin().sum() + h.cos().sum()
        for _ in range(3):
            parts = torch.autograd.grad(total, weights, create_graph=True)
            found += parts
            total = torch.stack([part.sin().sum() for part in parts]).sum()
        return found

    for one, other in zip(derivatives(layer), derivatives(rnn), strict=True):
        assert relative_error(one, other) <= 1e-9


def test_second_derivatives_of_torch_func_are_those_of_nn_rnn() -> None:
    layer, rnn = twins()
    x = torch.randn(2, 1, D)
    found, expected = (jacrev(jacrev(lambda x, m=m: m(x)[0].sin().sum()))(x) for m in (layer, rnn))
    assert relative_error(found, expected) <= 1e-10


def test_an_exported_layer_holds_one_operator_and_answers_the_same() -> None:
    layer, _ = twins()
    x = torch.randn(T, B, D)
    exported = torch.export.export(layer.eval(), (x,))
    assert "porism.elman.default" in [str(node.target) for node in exported.graph.nodes]
    for one, other in zip(exported.module()(x), layer(x), strict=True):
        assert torch.equal(one, other)
    # It learns as the layer does.
    program = exported.module()
    found, expected = (
        torch.autograd.grad(module(x)[0].sin().sum(), [module.get_parameter(name) for name in layer.state_dict()])
        for module in (program, layer)
    )
    assert max(relative_error(one, other) for one, other in zip(found, expected, strict=True)) <= 1e-12


def test_a_compiled_layer_answers_the_same_with_one_operator() -> None:
    layer, _ = twins()
    x = torch.randn(T, B, D, requires_grad=True)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(run(x)[0].sin().sum(), x)[0] for run in (compiled, layer))
    assert relative_error(found, expected) <= 1e-12


@pytest.mark.parametrize("asks", [(True, True), (False, True), (True, False)], ids=["all", "weights", "input"])
def test_the_registered_flops_are_the_counted_ones(asks: tuple[bool, bool]) -> None:
    layer, _ = twins()
    layer.requires_grad_(asks[1])
    x = torch.randn(T, B, D, requires_grad=asks[0])

    def run(x: Tensor) -> Tensor:
        y: Tensor = layer(x)[0]
        return y

    with FlopCounterMode(display=False) as counter:
        run(x).sum().backward()
    inside = count(run, x)
    assert counter.get_total_flops() == inside.flops + inside.backward_flops > 0
    assert not inside.uncounted
