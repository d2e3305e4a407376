"""Both passes as one differentiable function: for autograd, and for the compiler."""

from typing import Any

import torch
from torch import Tensor

from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only, own_memory
from porism.layers.grid import walk
from porism.layers.grid.gradient import Gradient
from porism.layers.grid.walk import Task, empty_kept
from porism.layers.kernels import available

WIDEST = 512
"""The most hidden units for which there is a kernel."""


def states(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, task: Task
) -> Tensor:
    """h at every pixel: x (B, C, Y, X) -> (B, H, Y, X), weights as torch keeps them."""
    pixels = x.permute(0, 2, 3, 1)
    if torch.compiler.is_compiling():
        y: Tensor = own_memory(_forward(pixels, weight_in, weight_left, weight_top, bias, *task)[0])
    elif not torch.is_grad_enabled():
        y, _ = pass_forward(pixels, weight_in, weight_left, weight_top, bias, task)
    else:
        y = _Walk.apply(pixels, weight_in, weight_left, weight_top, bias, task)  # type: ignore[no-untyped-call]
    return y.permute(0, 3, 1, 2)


def pass_forward(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The states (B, Y, X, H), and what else the way back needs: x (B, Y, X, C)."""
    with without_autocast(x):
        if _by_kernel(x, weight_left, task):
            from porism.layers.grid import triton

            y = triton.forward(x, weight_in, weight_left, weight_top, bias, task.activation, task.corner)
            return y, empty_kept(x, weight_left.shape[1], task)
        return walk.forward(x, weight_in, weight_left, weight_top, bias, task)


def pass_backward(dy: Tensor, saved: tuple[Tensor, ...], task: Task, wanted_x: bool) -> Gradient:
    """The gradients from dy (B, Y, X, H) and the operands, the states and what else was kept."""
    x, weight_in, weight_left, weight_top, y, kept = saved
    with without_autocast(x):
        if _by_kernel(x, weight_left, task):
            from porism.layers.grid import triton

            return triton.backward(dy, x, weight_in, weight_left, weight_top, y, task.activation, task.corner, wanted_x)
        return walk.backward(dy, x, weight_in, weight_left, weight_top, y, kept, task, wanted_x)


def _by_kernel(x: Tensor, weight_left: Tensor, task: Task) -> bool:
    return task.cell == "simple" and len(weight_left) <= WIDEST and x.numel() > 0 and available(x)


class _Walk(torch.autograd.Function):
    """Keeps the operands and the answer; an LSTM its gates and its memory too."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_in: Tensor,
        weight_left: Tensor,
        weight_top: Tensor,
        bias: Tensor | None,
        task: Task,
    ) -> Tensor:
        y, kept = pass_forward(x, weight_in, weight_left, weight_top, bias, task)
        ctx.save_for_backward(x, weight_in, weight_left, weight_top, bias, y.data, kept)
        ctx.task, ctx.watch = task, InPlaceWatch(y)
        return y

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_in, weight_left, weight_top, bias, y, kept = ctx.saved_tensors
        if ctx.watch.changed:
            y, kept = pass_forward(x, weight_in, weight_left, weight_top, bias, ctx.task)
        saved = x, weight_in, weight_left, weight_top, y, kept
        *found, db = pass_backward(dy, saved, ctx.task, ctx.needs_input_grad[0])
        return *found, db if ctx.needs_input_grad[4] else None, None


@torch.library.custom_op("porism::grid_forward", mutates_args=())
def _forward(
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    bias: Tensor | None,
    cell: str,
    activation: str,
    corner: str,
) -> tuple[Tensor, Tensor]:
    return pass_forward(x, weight_in, weight_left, weight_top, bias, Task(cell, activation, corner))


@torch.library.custom_op("porism::grid_backward", mutates_args=())
def _backward(
    dy: Tensor,
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    y: Tensor,
    kept: Tensor,
    cell: str,
    activation: str,
    corner: str,
    wanted_x: bool,
) -> list[Tensor]:
    saved = x, weight_in, weight_left, weight_top, y, kept
    dx, *rest = pass_backward(dy, saved, Task(cell, activation, corner), wanted_x)
    return [x.new_empty(0) if dx is None else dx, *rest]


@_forward.register_fake
def _(x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Any, *task: str) -> Any:
    H = weight_left.shape[1]
    return x.new_empty(*x.shape[:3], H), empty_kept(x, H, Task(*task))


@_backward.register_fake
def _(dy: Tensor, x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, *rest: Any) -> list[Tensor]:
    wanted_x = rest[-1]
    dx = x.new_empty(x.shape) if wanted_x else x.new_empty(0)
    weights = (weight.new_empty(weight.shape) for weight in (weight_in, weight_left, weight_top))
    return [dx, *weights, weight_in.new_empty(len(weight_in))]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight_in, weight_left, weight_top, bias, *task = inputs
    ctx.save_for_backward(x, weight_in, weight_left, weight_top, *output)
    ctx.task, ctx.has_bias = task, bias is not None


def _go_back(ctx: Any, dy: Tensor, _dkept: Tensor) -> tuple[Tensor | None, ...]:
    wanted_x = ctx.needs_input_grad[0]
    dx, *weights, db = _backward(dy, *ctx.saved_tensors, *ctx.task, wanted_x)
    return dx if wanted_x else None, *weights, db if ctx.has_bias else None, None, None, None


_forward.register_autograd(_go_back, setup_context=_keep)
