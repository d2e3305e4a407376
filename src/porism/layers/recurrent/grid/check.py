"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from porism.layers.cases import GradientCase, KernelCase
from porism.layers.recurrent.grid import naive
from porism.layers.recurrent.grid.functional import grid
from porism.layers.recurrent.grid.kernels import cpu as walk
from porism.layers.recurrent.grid.kernels.cpu import GATES, Task
from porism.layers.recurrent.grid.kernels.diagonals import CORNERS
from porism.layers.recurrent.grid.naive import ACTIVATIONS

B, C, H, Y, X = 2, 3, 4, 3, 5


def cases(seed: int) -> Iterator[GradientCase]:
    """Each activation and each corner once, and the LSTM."""
    draw = torch.Generator().manual_seed(seed)
    for activation, corner in zip((*ACTIVATIONS, "tanh"), CORNERS, strict=True):
        yield _case(draw, Task("simple", activation, corner))
    yield _case(draw, Task("lstm", "", "top-left"))


def _case(draw: torch.Generator, task: Task) -> GradientCase:
    width = GATES[task.cell] * H
    shapes = {"x": (B, C, Y, X), "W_in": (C, width), "W_left": (H, width), "W_top": (H, width), "b": (width,)}
    at = {name: torch.randn(shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}
    dy = torch.randn(B, H, Y, X, generator=draw, dtype=torch.float64)

    def weighted_states(x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor) -> Tensor:
        x = naive.turned(x, task.corner)
        if task.cell == "lstm":
            h = naive.grid_lstm(x, W_in, W_left, W_top, b)
        else:
            h = naive.grid(x, W_in, W_left, W_top, b, task.activation)
        return (naive.turned(h, task.corner) * dy).sum()

    weights = at["W_in"].mT, at["W_left"].mT, at["W_top"].mT
    x = at["x"].movedim(1, 3)
    y, kept = walk.forward(x, *weights, at["b"], task)
    dx, dW_in, dW_left, dW_top, db = walk.backward(dy.movedim(1, 3), x, *weights, y, kept, task, wanted_x=True)
    assert dx is not None
    by_hand = {"x": dx.movedim(3, 1), "W_in": dW_in.mT, "W_left": dW_left.mT, "W_top": dW_top.mT, "b": db}
    return GradientCase(f"{task.activation or task.cell}.{task.corner}", weighted_states, at, by_hand)


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    shapes = {"x": (B, C, Y, X), "W_in": (H, C), "W_left": (H, H), "W_top": (H, H), "b": (H,)}
    for activation, corner in zip(ACTIVATIONS, CORNERS[1:], strict=True):
        at = {name: torch.randn(shape, generator=draw) / 2 for name, shape in shapes.items()}
        yield KernelCase(
            f"{activation}.{corner}",
            partial(grid, activation=activation, corner=corner),
            partial(_oracle, activation=activation, corner=corner),
            at,
        )


def _oracle(x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor, activation: str, corner: str) -> Tensor:
    return naive.turned(naive.grid(naive.turned(x, corner), W_in.mT, W_left.mT, W_top.mT, b, activation), corner)
