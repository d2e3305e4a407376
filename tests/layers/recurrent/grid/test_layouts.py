"""Strided operands: whatever way they lie in memory, the answer and every gradient are those of the loops."""

from typing import Any

import pytest
import torch
from tests.layers.layouts import LAYOUTS
from torch import Tensor

from porism.layers import kernels
from porism.layers.recurrent.grid import grid, naive
from porism.testing.gradients import relative_error

B, C, H, Y, X = 2, 3, 4, 2, 3
SHAPES = {"input": (B, C, Y, X), "weight_in": (H, C), "weight_left": (H, H), "weight_top": (H, H), "bias": (H,)}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def errors(layout: str, strided: tuple[str, ...], dtype: torch.dtype = torch.float64, **task: Any) -> list[float]:
    """Of the states and of every gradient, against the loops in float64."""
    exact = _leaves(task.get("cell", "rnn"))
    ours = {name: leaf.detach().to(DEVICE, dtype).requires_grad_() for name, leaf in exact.items()}
    found, dy = _run(ours, layout, strided, grid, task)
    wanted, _ = _run(exact, layout, strided, _loops, task)
    pairs = [(found, wanted)]
    pairs += zip(
        torch.autograd.grad(found, [*ours.values()], dy),
        torch.autograd.grad(wanted, [*exact.values()], dy.double().cpu()),
        strict=True,
    )
    return [relative_error(one.double().cpu(), other) for one, other in pairs]


def _leaves(cell: str) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    gates = 5 if cell == "lstm" else 1
    shapes = {name: shape if name == "x" else (gates * shape[0], *shape[1:]) for name, shape in SHAPES.items()}
    return {
        name: torch.randn(shape, generator=draw, dtype=torch.float64).mul_(0.5).requires_grad_()
        for name, shape in shapes.items()
    }


def _run(
    leaves: dict[str, Tensor], layout: str, strided: tuple[str, ...], run: Any, task: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The states, and the gradient that comes in."""
    given = {name: LAYOUTS[layout](leaf) if name in strided else leaf for name, leaf in leaves.items()}
    y = run(*given.values(), **task)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    return y, LAYOUTS[layout](dy) if "dy" in strided else dy


def _loops(x: Tensor, *weights: Tensor, nonlinearity: str = "sigmoid", cell: str = "rnn", direction: str) -> Tensor:
    W_in, W_left, W_top = (weight.mT for weight in weights[:3])
    x = naive.rotated(x, direction)
    if cell == "lstm":
        return naive.rotated(naive.grid_lstm(x, W_in, W_left, W_top, weights[3]), direction)
    return naive.rotated(naive.grid(x, W_in, W_left, W_top, weights[3], nonlinearity), direction)


@pytest.mark.sweep(2, each="layout")
@each_layout
@pytest.mark.parametrize("operand", [*SHAPES, "dy"])
def test_each_operand_and_the_gradient_that_comes_in(layout: str, operand: str) -> None:
    assert max(errors(layout, (operand,), direction="top-right", nonlinearity="tanh")) <= 1e-12


@each_layout
@pytest.mark.parametrize("task", [{"nonlinearity": "relu"}, {"cell": "lstm"}], ids=str)
def test_all_at_once(layout: str, task: dict[str, Any]) -> None:
    assert max(errors(layout, (*SHAPES, "dy"), direction="bottom-left", **task)) <= 1e-12


@pytest.mark.sample(2)
@pytest.mark.usefixtures("triton_runs")
@pytest.mark.parametrize("layout", ["permuted", "stepped", "expanded", "negated", "channels last"])
def test_all_at_once_in_the_kernel(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEVICES", {DEVICE})
    assert max(errors(layout, (*SHAPES, "dy"), torch.float32, direction="bottom-left", nonlinearity="tanh")) <= 2e-5
