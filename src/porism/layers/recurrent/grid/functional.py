"""Both passes as one differentiable function: for autograd, and for the compiler."""

from collections.abc import Sequence, Set
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only, own_memory
from porism.layers.kernels import available
from porism.layers.operands import check_operands
from porism.layers.recurrent.grid.gradient import Gradient
from porism.layers.recurrent.grid.kernels import cpu as walk
from porism.layers.recurrent.grid.kernels.cpu import ACTIVATE, GATES, Task, empty_kept
from porism.layers.recurrent.grid.kernels.diagonals import CORNERS

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
            from porism.layers.recurrent.grid.kernels import triton

            y = triton.forward(x, weight_in, weight_left, weight_top, bias, task.activation, task.corner)
            return y, empty_kept(x, weight_left.shape[1], task)
        return walk.forward(x, weight_in, weight_left, weight_top, bias, task)


def pass_backward(dy: Tensor, saved: tuple[Tensor, ...], task: Task, wanted_x: bool) -> Gradient:
    """The gradients from dy (B, Y, X, H) and the operands, the states and what else was kept."""
    x, weight_in, weight_left, weight_top, y, kept = saved
    with without_autocast(x):
        if _by_kernel(x, weight_left, task):
            from porism.layers.recurrent.grid.kernels import triton

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

_SOME_CORNERS = {1: CORNERS[:1], 2: (CORNERS[0], CORNERS[3]), 4: CORNERS}

_COMBINE = ("sum", "concatenate")


def grid(
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cell: str = "simple",
    corner: str = "top-left",
) -> Tensor:
    """One walk over images, from one corner: the state of every pixel.

    >>> B, C, H = 8, 3, 16
    >>> grid(torch.randn(B, C, 28, 20), torch.randn(H, C), torch.randn(H, H), torch.randn(H, H)).shape
    torch.Size([8, 16, 28, 20])

    Shapes: x (B, C, Y, X), weight_in (H, C), weight_left and weight_top (H, H), bias (H) -> (B, H, Y, X); for an LSTM
    the weights have 5 H rows: the gates in, keep left, keep top, out, and what is new.
    Left and top are as seen from the corner. Under autocast operands and answer are of its type, sums are float32.
    """
    activation = _activation(cell, activation)
    if corner not in CORNERS:
        raise ShapeError(f"grid: corner is {corner!r}. Choose from {', '.join(CORNERS)}.")
    _check(x, weight_in, weight_left, weight_top, bias, GATES[cell])
    if dtype := autocast_dtype(x):
        x, weight_in, weight_left, weight_top = (part.to(dtype) for part in (x, weight_in, weight_left, weight_top))
        bias = None if bias is None else bias.to(dtype)
    return states(x, weight_in, weight_left, weight_top, bias, Task(cell, activation or "", corner))


def _activation(cell: str, activation: str | None) -> str | None:
    """What a simple cell ends in; None for an LSTM."""
    if cell not in tuple(GATES):
        raise ShapeError(f"grid: cell is {cell!r}. Choose from {', '.join(GATES)}.")
    if cell == "lstm":
        if activation is not None:
            raise ShapeError(f"grid: activation is {activation!r}, and an lstm cell has its own. Leave it out.")
        return None
    activation = "sigmoid" if activation is None else activation
    if activation not in tuple(ACTIVATE):
        raise ShapeError(f"grid: activation is {activation!r}. Choose from {', '.join(ACTIVATE)}.")
    return activation


def _named(corners: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(corners, Integral) and not isinstance(corners, bool) and corners in _SOME_CORNERS:
        return _SOME_CORNERS[int(corners)]
    if not isinstance(corners, Sequence | Set):
        raise ShapeError(f"grid: corners is {corners!r}. Give 1, 2 or 4, or names from {', '.join(CORNERS)}.")
    names = (corners,) if isinstance(corners, str) else tuple(corners)
    if not names or any(name not in CORNERS or names.count(name) > 1 for name in names):
        raise ShapeError(
            f"grid: corners is {corners!r}. Give each of {', '.join(CORNERS)} once at most, and one or more."
        )
    return names


def _suffix(corner: str) -> str:
    """What sets the parameters of a corner apart; those of the first have plain names."""
    return "" if corner == CORNERS[0] else "_" + corner.replace("-", "_")


def _check(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, gates: int
) -> None:
    check_operands("grid", x=x, weight_in=weight_in, weight_left=weight_left, weight_top=weight_top, bias=bias)
    if x.dim() != 4:
        raise ShapeError(f"grid: x is {tuple(x.shape)}, wanted (B, C, Y, X). Reshape x.")
    _, C, Y, X = x.shape
    if Y == 0 or X == 0:
        raise ShapeError(
            f"grid: x is {tuple(x.shape)}, no pixels, wanted (B, C, Y, X) with Y and X from 1 on. Skip it."
        )
    if weight_left.dim() != 2:
        raise ShapeError(
            f"grid: weight_left is {tuple(weight_left.shape)}, wanted two dimensions, a column for each hidden unit. "
            "Reshape weight_left."
        )
    H = weight_left.shape[1]
    wanted = {"weight_in": (gates * H, C), "weight_left": (gates * H, H), "weight_top": (gates * H, H)}
    wanted_shapes: dict[str, tuple[int, ...]] = {**wanted, "bias": (gates * H,)}
    for (name, shape), part in zip(wanted_shapes.items(), (weight_in, weight_left, weight_top, bias), strict=True):
        if part is not None and tuple(part.shape) != shape:
            raise ShapeError(
                f"grid: {name} is {tuple(part.shape)}, wanted {shape} for x {tuple(x.shape)} and {H} hidden units. "
                f"Reshape {name}."
            )
