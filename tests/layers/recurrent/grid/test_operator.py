"""Grid under torch.func, vmap, torch.export and torch's own FLOP counter."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.count import count
from porism.layers import Grid
from porism.testing.gradients import relative_error

B, C, H, Y, X = 2, 3, 4, 3, 5
each_cell = pytest.mark.parametrize("cell", ["rnn", "lstm"])

# torch's transforms and compiler themselves call what torch deprecates.
pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@each_cell
def test_gradients_of_torch_func_and_vmap_are_those_of_autograd(cell: str) -> None:
    layer, images = Grid(C, H, bias=True, cell=cell, directions=2), torch.randn(2, B, C, Y, X)
    parameters: dict[str, Tensor] = dict(layer.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        answer: Tensor = functional_call(layer, parameters, (x,))
        return answer.sin().sum()

    found = vmap(grad(loss), (None, 0))(parameters, images)
    for i, x in enumerate(images):
        expected = torch.autograd.grad(loss(parameters, x), list(parameters.values()))
        for name, one in zip(parameters, expected, strict=True):
            assert relative_error(found[name][i], one) <= 1e-12, name
            assert relative_error(grad(loss)(parameters, x)[name], one) <= 1e-12, name


def test_a_change_in_place_inside_a_transform_is_right() -> None:
    layer = Grid(C, H)

    def changed(x: Tensor, in_place: bool) -> Tensor:
        y = layer(x)
        return (y.mul_(2) if in_place else y * 2).sin().sum()

    x = torch.randn(B, C, Y, X)
    assert relative_error(grad(changed)(x, True), grad(changed)(x, False)) <= 1e-12


@each_cell
def test_an_exported_layer_holds_one_operator_answers_the_same_and_learns(cell: str) -> None:
    layer, x = Grid(C, H, bias=True, cell=cell), torch.randn(B, C, Y, X)
    exported = torch.export.export(layer, (x,))
    program: Any = exported.module()
    assert "porism.grid_forward.default" in [str(node.target) for node in exported.graph.nodes]
    assert torch.equal(program(x), layer(x))
    found, expected = (
        torch.autograd.grad(module(x).sin().sum(), [module.get_parameter(name) for name in layer.state_dict()])
        for module in (program, layer)
    )
    assert max(relative_error(one, other) for one, other in zip(found, expected, strict=True)) <= 1e-12


@each_cell
@pytest.mark.parametrize("asks", [True, False])
def test_the_registered_flops_are_the_counted_ones(cell: str, asks: bool) -> None:
    layer, x = Grid(C, H, cell=cell), torch.randn(B, C, Y, X, requires_grad=asks)
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    inside = count(layer, x)
    assert counter.get_total_flops() == inside.flops + inside.backward_flops > 0
    assert not inside.uncounted
