"""Both passes as one differentiable function: for autograd, and for the compiler."""

from typing import Any

import torch
from torch import Tensor

from porism.layers.autocast import without_autocast
from porism.layers.derivative import first_derivative_only
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
    if torch.compiler.is_compiling():
        compiled: tuple[Tensor, Tensor] = _forward(x, weight_in, weight_left, weight_top, bias, *task)
        return compiled[0]
    y: Tensor = _Walk.apply(x, weight_in, weight_left, weight_top, bias, task)  # type: ignore[no-untyped-call]
    return y


def pass_forward(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The states, and what else the way back needs."""
    with without_autocast(x):
        if _by_kernel(x, weight_left, task):
            from porism.layers.grid import triton

            y = triton.forward(x, weight_in, weight_left, weight_top, bias, task.activation, task.corner)
            return y, empty_kept(x, weight_left.shape[1], task)
        return walk.forward(x, weight_in, weight_left, weight_top, bias, task)


def pass_backward(dy: Tensor, saved: tuple[Tensor, ...], task: Task, wanted_x: bool) -> Gradient:
    x, weight_in, weight_left, weight_top, y, kept = saved
    with without_autocast(x):
        if _by_kernel(x, weight_left, task):
            from porism.layers.grid import triton

            return triton.backward(dy, x, weight_in, weight_left, weight_top, y, task.activation, task.corner, wanted_x)
        return walk.backward(dy, x, weight_in, weight_left, weight_top, y, kept, task, wanted_x)


def _by_kernel(x: Tensor, weight_left: Tensor, task: Task) -> bool:
    return task.cell == "simple" and len(weight_left) <= WIDEST and x.numel() > 0 and available(x)


class _Walk(torch.autograd.Function):
    """Keeps x, the weights and the answer; an LSTM its gates and its memory too."""

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
        ctx.save_for_backward(x, weight_in, weight_left, weight_top, y, kept)
        ctx.task = task
        return y

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        *found, db = pass_backward(dy, ctx.saved_tensors, ctx.task, ctx.needs_input_grad[0])
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
    (B, _, Y, X), H = x.shape, weight_left.shape[1]
    return x.new_empty(B, Y, X, H).permute(0, 3, 1, 2), empty_kept(x, H, Task(*task))


@_backward.register_fake
def _(dy: Tensor, x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, *rest: Any) -> list[Tensor]:
    (B, C, Y, X), wanted_x = x.shape, rest[-1]
    dx = x.new_empty(B, Y, X, C).permute(0, 3, 1, 2) if wanted_x else x.new_empty(0)
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
