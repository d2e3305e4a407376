"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from porism.layers.cases import GradientCase, KernelCase
from porism.layers.recurrent.grid import naive
from porism.layers.recurrent.grid.functional import grid
from porism.layers.recurrent.grid.kernels import cpu
from porism.layers.recurrent.grid.kernels.cpu import GATES, GridSettings
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS
from porism.layers.recurrent.grid.naive import ACTIVATIONS

B, C, H, Y, X = 2, 3, 4, 3, 5


def cases(seed: int) -> Iterator[GradientCase]:
    """Each nonlinearity and each direction once, and the LSTM."""
    draw = torch.Generator().manual_seed(seed)
    for nonlinearity, direction in zip((*ACTIVATIONS, "tanh"), DIRECTIONS, strict=True):
        yield _case(draw, GridSettings("rnn", nonlinearity, direction))
    yield _case(draw, GridSettings("lstm", "", "top-left"))


def _case(draw: torch.Generator, settings: GridSettings) -> GradientCase:
    width = GATES[settings.cell] * H
    shapes = {"x": (B, C, Y, X), "W_in": (C, width), "W_left": (H, width), "W_top": (H, width), "b": (width,)}
    at = {name: torch.randn(shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}
    dy = torch.randn(B, H, Y, X, generator=draw, dtype=torch.float64)

    def weighted_states(x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor) -> Tensor:
        x = naive.rotated(x, settings.direction)
        if settings.cell == "lstm":
            h = naive.grid_lstm(x, W_in, W_left, W_top, b)
        else:
            h = naive.grid(x, W_in, W_left, W_top, b, settings.nonlinearity)
        return (naive.rotated(h, settings.direction) * dy).sum()

    weights = at["W_in"].mT, at["W_left"].mT, at["W_top"].mT
    x = at["x"].movedim(1, 3)
    y, kept = cpu.forward(x, *weights, at["b"], settings)
    dx, dW_in, dW_left, dW_top, db = cpu.backward(dy.movedim(1, 3), x, *weights, y, kept, settings, needs_x=True)
    assert dx is not None
    by_hand = {"x": dx.movedim(3, 1), "W_in": dW_in.mT, "W_left": dW_left.mT, "W_top": dW_top.mT, "b": db}
    return GradientCase(f"{settings.nonlinearity or settings.cell}.{settings.direction}", weighted_states, at, by_hand)


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    shapes = {"x": (B, C, Y, X), "W_in": (H, C), "W_left": (H, H), "W_top": (H, H), "b": (H,)}
    for nonlinearity, direction in zip(ACTIVATIONS, DIRECTIONS[1:], strict=True):
        at = {name: torch.randn(shape, generator=draw) / 2 for name, shape in shapes.items()}
        yield KernelCase(
            f"{nonlinearity}.{direction}",
            partial(grid, nonlinearity=nonlinearity, direction=direction),
            partial(_oracle, nonlinearity=nonlinearity, direction=direction),
            at,
        )


def _oracle(
    x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor, nonlinearity: str, direction: str
) -> Tensor:
    return naive.rotated(
        naive.grid(naive.rotated(x, direction), W_in.mT, W_left.mT, W_top.mT, b, nonlinearity), direction
    )
