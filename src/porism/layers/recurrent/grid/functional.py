"""One scan over images as one operator with its gradient, and the functional form around it."""

from collections.abc import Sequence, Set
from numbers import Integral
from typing import Any

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.kernels import available
from porism.layers.operands import check_operands
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    register,
    watch_of,
)
from porism.layers.recurrent.grid.kernels import cpu
from porism.layers.recurrent.grid.kernels.cpu import ACTIVATE, GATES, GridSettings, empty_kept
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS

WIDEST = 512
"""The most hidden units for which there is a kernel."""


def states(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, settings: GridSettings
) -> Tensor:
    """h at every pixel: x (B, C, Y, X) -> (B, H, Y, X), weights as torch keeps them."""
    operands = (x.permute(0, 2, 3, 1), weight_in, weight_left, weight_top, bias)
    with without_autocast(x):
        y: Tensor = call(OPERATOR, GridFunction, *operands, *settings)[0]
    return y.permute(0, 3, 1, 2)


def _forward(
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    bias: Tensor | None,
    cell: str,
    nonlinearity: str,
    direction: str,
) -> tuple[Tensor, Tensor]:
    """The states (B, Y, X, H), and what else the backward pass needs: x (B, Y, X, C)."""
    settings = GridSettings(cell, nonlinearity, direction)
    if _by_triton(x, weight_left, cell):
        from porism.layers.recurrent.grid.kernels import triton

        y = triton.forward(x, weight_in, weight_left, weight_top, bias, nonlinearity, direction)
        kept = empty_kept(x, weight_left.shape[1], settings)
    else:
        y, kept = cpu.forward(x, weight_in, weight_left, weight_top, bias, settings)
    # No view, so that autograd lets users change it in place.
    return y.data, kept


def _backward(
    dy: Tensor,
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    y: Tensor,
    kept: Tensor,
    cell: str,
    nonlinearity: str,
    direction: str,
    needs_x: bool,
) -> tuple[Tensor, ...]:
    """The gradients of x (empty where it is not needed), the weights and the bias, from dy (B, Y, X, H)."""
    weights = (weight_in, weight_left, weight_top)
    if _by_triton(x, weight_left, cell):
        from porism.layers.recurrent.grid.kernels import triton

        dx, *rest = triton.backward(dy, x, *weights, y, nonlinearity, direction, needs_x)
    else:
        dx, *rest = cpu.backward(dy, x, *weights, y, kept, GridSettings(cell, nonlinearity, direction), needs_x)
    return x.new_empty(0) if dx is None else dx, *rest


def _by_triton(x: Tensor, weight_left: Tensor, cell: str) -> bool:
    return cell == "rnn" and len(weight_left) <= WIDEST and x.numel() > 0 and available(x)


def _shapes(x: Tensor, weight_in: Any, weight_left: Tensor, weight_top: Any, bias: Any, *settings: str) -> Any:
    H = weight_left.shape[1]
    return x.new_empty(*x.shape[:3], H), empty_kept(x, H, GridSettings(*settings))


def _backward_shapes(dy: Any, x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, *rest: Any) -> Any:
    dx = x.new_empty(x.shape if rest[-1] else (0,))
    weights = (x.new_empty(weight.shape) for weight in (weight_in, weight_left, weight_top))
    return dx, *weights, x.new_empty(len(weight_in))


def _flops(x: Any, weight_in: Any, weight_left: Any, *_: Any, **__: Any) -> int:
    """All pixels have an input; the first column has no left neighbour, the first row no top one."""
    return _products(x, weight_left)


def _backward_flops(dy: Any, x: Any, weight_in: Any, weight_left: Any, *rest: Any, **__: Any) -> int:
    """Each product of the forward pass turns into two: of its left operand and of its right one."""
    B, Y, X, C = x
    return 2 * _products(x, weight_left) - (0 if rest[-1] else 2 * B * Y * X * C * weight_in[0])


def _products(x: Any, weight_left: Any) -> int:
    (B, Y, X, C), (width, H) = x, weight_left
    return int(2 * B * width * (Y * X * C + (Y * (X - 1) + (Y - 1) * X) * H))


_SETTINGS = "str cell, str nonlinearity, str direction"
OPERATOR = register(
    f"grid_forward(Tensor x, Tensor weight_in, Tensor weight_left, Tensor weight_top, Tensor? bias, {_SETTINGS}) "
    "-> (Tensor, Tensor)",
    _forward,
    _shapes,
    _flops,
)
BACKWARD = register(
    "grid_backward(Tensor dy, Tensor x, Tensor weight_in, Tensor weight_left, Tensor weight_top, Tensor y, "
    f"Tensor kept, {_SETTINGS}, bool needs_x) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_shapes,
    _backward_flops,
)


class GridFunction(Function):
    """`porism::grid_forward` with the backward pass by hand: kept are the operands, the states and `kept`."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        y, kept = output
        ctx.settings, ctx.watch = inputs[5:], watch_of(y)
        ctx.save_for_backward(*inputs[:5], y if ctx.watch is None else y.data, kept)
        ctx.mark_non_differentiable(kept)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        x, weight_in, weight_left, weight_top, bias, y, kept = ctx.saved_tensors
        weights = (weight_in, weight_left, weight_top)
        with without_autocast(x):
            if ctx.watch is not None and ctx.watch.changed:
                y, kept = GridFunction.forward(x, *weights, bias, *ctx.settings)
            needs_x = ctx.needs_input_grad[0]
            dx, *found, db = call_backward(GridBackward, dy, x, *weights, y, kept, *ctx.settings, needs_x)
        return dx if needs_x else None, *found, db if ctx.needs_input_grad[4] else None, None, None, None


class GridBackward(BackwardFunction):
    """`porism::grid_backward`."""


differentiate(GridFunction, OPERATOR)
differentiate(GridBackward, BACKWARD)


_SOME_DIRECTIONS = {1: DIRECTIONS[:1], 2: (DIRECTIONS[0], DIRECTIONS[3]), 4: DIRECTIONS}

MERGE_MODES = ("sum", "concat")


def grid(
    input: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    bias: Tensor | None = None,
    nonlinearity: str = "sigmoid",
    cell: str = "rnn",
    direction: str = "top-left",
) -> Tensor:
    """One scan over images, in one direction: the state of every pixel.

    >>> B, C, H = 8, 3, 16
    >>> grid(torch.randn(B, C, 28, 20), torch.randn(H, C), torch.randn(H, H), torch.randn(H, H)).shape
    torch.Size([8, 16, 28, 20])

    `direction` names the corner where it starts; left and top are as seen from there. Under autocast operands and
    answer are of its type, sums are float32.

    Shapes: input (B, C, Y, X), weight_in (H, C), weight_left and weight_top (H, H), bias (H) -> (B, H, Y, X); for an
    LSTM the weights have 5 H rows: the gates in, keep left, keep top, out, and what is new.
    """
    check_cell(cell, nonlinearity)
    if direction not in DIRECTIONS:
        raise ShapeError(f"grid: direction is {direction!r}. Choose from {', '.join(DIRECTIONS)}.")
    _check(input, weight_in, weight_left, weight_top, bias, GATES[cell])
    operands = (input, weight_in, weight_left, weight_top)
    if dtype := autocast_dtype(input):
        operands = (input.to(dtype), weight_in.to(dtype), weight_left.to(dtype), weight_top.to(dtype))
        bias = None if bias is None else bias.to(dtype)
    return states(*operands, bias, GridSettings(cell, "" if cell == "lstm" else nonlinearity, direction))


def check_cell(cell: str, nonlinearity: str) -> None:
    """An LSTM has a sigmoid and a tanh of its own, so there only the default is taken."""
    if cell not in tuple(GATES):
        raise ShapeError(f"grid: cell is {cell!r}. Choose from {', '.join(GATES)}.")
    if nonlinearity not in tuple(ACTIVATE):
        raise ShapeError(f"grid: nonlinearity is {nonlinearity!r}. Choose from {', '.join(ACTIVATE)}.")
    if cell == "lstm" and nonlinearity != "sigmoid":
        raise ShapeError(f"grid: nonlinearity is {nonlinearity!r}, and an lstm cell has its own. Leave it out.")


def direction_names(directions: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(directions, Integral) and not isinstance(directions, bool) and directions in _SOME_DIRECTIONS:
        return _SOME_DIRECTIONS[int(directions)]
    if not isinstance(directions, Sequence | Set):
        raise ShapeError(f"grid: directions is {directions!r}. Give 1, 2 or 4, or names from {', '.join(DIRECTIONS)}.")
    names = (directions,) if isinstance(directions, str) else tuple(directions)
    if not names or any(name not in DIRECTIONS or names.count(name) > 1 for name in names):
        raise ShapeError(
            f"grid: directions is {directions!r}. Give each of {', '.join(DIRECTIONS)} once at most, and one or more."
        )
    return names


def parameter_suffix(direction: str) -> str:
    """What sets the parameters of a direction apart; those of the first have plain names."""
    return "" if direction == DIRECTIONS[0] else "_" + direction.replace("-", "_")


def _check(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, gates: int
) -> None:
    check_operands("grid", input=x, weight_in=weight_in, weight_left=weight_left, weight_top=weight_top, bias=bias)
    if x.dim() != 4:
        raise ShapeError(f"grid: input is {tuple(x.shape)}, expected (B, C, Y, X). Reshape it.")
    _, C, Y, X = x.shape
    if Y == 0 or X == 0:
        raise ShapeError(
            f"grid: input is {tuple(x.shape)}, no pixels, expected (B, C, Y, X) with Y and X from 1 on. Skip it."
        )
    if weight_left.dim() != 2:
        raise ShapeError(
            f"grid: weight_left is {tuple(weight_left.shape)}, expected two dimensions, a column for each hidden unit. "
            "Reshape weight_left."
        )
    H = weight_left.shape[1]
    weights = {"weight_in": (gates * H, C), "weight_left": (gates * H, H), "weight_top": (gates * H, H)}
    expected: dict[str, tuple[int, ...]] = {**weights, "bias": (gates * H,)}
    for (name, shape), part in zip(expected.items(), (weight_in, weight_left, weight_top, bias), strict=True):
        if part is not None and tuple(part.shape) != shape:
            raise ShapeError(
                f"grid: {name} is {tuple(part.shape)}, expected {shape} for input {tuple(x.shape)} and {H} hidden "
                f"units. Reshape {name}."
            )
