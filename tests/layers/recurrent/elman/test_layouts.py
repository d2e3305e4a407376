"""Strided operands: whatever way they lie in memory, the answer and every gradient are those of the loops."""

import pytest
import torch
from tests.layers.layouts import LAYOUTS
from torch import Tensor

from porism.layers import Elman
from porism.layers.recurrent.elman import elman, naive
from porism.testing.gradients import relative_error

T, B, D, H = 4, 3, 2, 5
SHAPES = {"input": (T, B, D), "hx": (B, H), "weight_ih": (H, D), "weight_hh": (H, H), "bias": (H,)}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def leaves() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=draw, dtype=torch.float64).mul_(0.6).requires_grad_()
        for name, shape in SHAPES.items()
    }


def gradient_in() -> Tensor:
    return torch.randn(T, B, H, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def assert_right(y: Tensor, operands: dict[str, Tensor], leaves: dict[str, Tensor], dy: Tensor, act: str) -> None:
    x, h0, weight_ih, weight_hh, bias = operands.values()
    wanted = naive.elman(x, h0, weight_ih.mT, weight_hh.mT, bias, act)
    assert relative_error(y, wanted) <= 1e-12
    variables = list(leaves.values())
    found, expected = (torch.autograd.grad(states, variables, dy, retain_graph=True) for states in (y, wanted))
    for name, one, other in zip(leaves, found, expected, strict=True):
        assert relative_error(one, other) <= 1e-10, name


@pytest.mark.sweep(3, each="layout")
@each_layout
@pytest.mark.parametrize("operand", [*SHAPES, "all"])
@pytest.mark.parametrize("nonlinearity", ["sigmoid", "relu"])
def test_operands(layout: str, operand: str, nonlinearity: str) -> None:
    parts = leaves()
    given = {name: LAYOUTS[layout](part) if operand in (name, "all") else part for name, part in parts.items()}
    y, h = elman(**given, nonlinearity=nonlinearity)
    assert torch.equal(h, y[-1])
    assert_right(y, given, parts, gradient_in(), nonlinearity)


@each_layout
@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh", "relu"])
def test_the_gradient_that_comes_in(layout: str, nonlinearity: str) -> None:
    parts = leaves()
    y, _ = elman(**parts, nonlinearity=nonlinearity)
    assert_right(y, parts, parts, LAYOUTS[layout](gradient_in()), nonlinearity)


@each_layout
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_layer_equals_nn_rnn(layout: str, batch_first: bool) -> None:
    torch.manual_seed(0)
    rnn = torch.nn.RNN(D, H, 2, bidirectional=True, batch_first=batch_first, dtype=torch.float64)
    layer = Elman(D, H, 2, "tanh", bidirectional=True, batch_first=batch_first, dtype=torch.float64)
    layer.load_state_dict(rnn.state_dict())
    x = torch.randn(T, T, D, dtype=torch.float64, requires_grad=True)
    hx = torch.randn(4, T, H, dtype=torch.float64, requires_grad=True)
    dy, dh = (LAYOUTS[layout](torch.randn(shape, dtype=torch.float64)) for shape in ((T, T, 2 * H), (4, T, H)))
    given = LAYOUTS[layout](x), LAYOUTS[layout](hx)
    (y, h), (wanted_y, wanted_h) = layer(*given), rnn(*given)
    assert relative_error(y, wanted_y) <= 1e-12
    assert relative_error(h, wanted_h) <= 1e-12
    weights = "weight_hh_l1", "weight_ih_l0_reverse"
    found = torch.autograd.grad((y, h), (x, hx, *map(layer.get_parameter, weights)), (dy, dh), retain_graph=True)
    wanted = torch.autograd.grad((wanted_y, wanted_h), (x, hx, *map(rnn.get_parameter, weights)), (dy, dh))
    assert max(relative_error(one, other) for one, other in zip(found, wanted, strict=True)) <= 1e-10
