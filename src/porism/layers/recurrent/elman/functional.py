"""The functional form: one layer in one direction, as one operator with its gradient."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import InPlaceWatch, own_memory
from porism.layers.kernels import available
from porism.layers.operands import check_operands
from porism.layers.operators import Function, call_backward, differentiate, is_recorded, register, run
from porism.layers.recurrent.elman.gradient import back_through_time, differentiable_gradient, layer_gradient
from porism.layers.recurrent.elman.kernels import cpu
from porism.layers.recurrent.elman.kernels.cpu import ACTIVATE
from porism.layers.recurrent.elman.kernels.cudnn import fused


def elman(
    input: Tensor,
    hx: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    nonlinearity: str = "sigmoid",
) -> tuple[Tensor, Tensor]:
    """One layer, one direction: every state, and the last one.

    >>> T, B, D, H = 10, 4, 50, 100
    >>> y, h = elman(torch.randn(T, B, D), torch.zeros(B, H), torch.randn(H, D), torch.randn(H, H))
    >>> y.shape, h.shape
    (torch.Size([10, 4, 100]), torch.Size([4, 100]))

    Shapes: input (T, B, D), hx (B, H), weight_ih (H, D), weight_hh (H, H), bias (H) -> y (T, B, H), h (B, H).
    Under autocast the product with the input runs in its type, the recurrence in float32: there rounding errors would
    be fed back at every step.
    """
    y = states(input, hx, weight_ih, weight_hh, bias, nonlinearity)
    # Memory of its own: a user who changes the last state in place, does not mean y.
    return y, y[-1].clone()


def states(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    nonlinearity: str,
    mask: Tensor | None = None,
) -> Tensor:
    """Every state of `elman`, (T, B, H); `mask` (B, H) is multiplied into each h[t-1]: dropout of what is fed back."""
    _check(x, h0, weight_ih, weight_hh, bias, nonlinearity)
    if product := autocast_dtype(x):
        dtype = torch.promote_types(weight_hh.dtype, torch.float32)
        # cuDNN has one type for all.
        product = dtype if _takes_cudnn(x, weight_hh.to(dtype), mask) else product
        x, weight_ih, h0, weight_hh = x.to(product), weight_ih.to(product), h0.to(dtype), weight_hh.to(dtype)
        bias = None if bias is None else bias.to(product)
        mask = None if mask is None else mask.to(dtype)
    with without_autocast(x):
        if _takes_cudnn(x, weight_hh, mask):
            return fused(x, h0, weight_ih, weight_hh, bias, nonlinearity)
        # Both passes read x by rows, a step of a sequence each: where they lie otherwise they are copied once.
        x = x.contiguous()
        operands = (x, h0, weight_ih, weight_hh, bias, mask)
        if torch.compiler.is_compiling():
            return own_memory(OPERATOR(*operands, nonlinearity)[1:])
        transformed = torch._C._are_functorch_transforms_active()
        if not transformed and not is_recorded(operands):
            h: Tensor = run(OPERATOR, *operands, nonlinearity)
            return h[1:]
        y: Tensor = ElmanFunction.apply(*operands, nonlinearity, not transformed)[0]
    return y


def _takes_cudnn(x: Tensor, weight_hh: Tensor, mask: Tensor | None) -> bool:
    """Nets on a GPU that are too wide for our kernel. cuDNN is built for single precision and below.

    Compiled code calls the operator, which reads sizes and devices when it runs.
    """
    if not x.is_cuda or weight_hh.dtype == torch.float64 or mask is not None or torch.compiler.is_compiling():
        return False
    return not runs_on_chip(x, weight_hh)


def runs_on_chip(x: Tensor, weight_hh: Tensor) -> bool:
    """Whether there is a kernel for all steps at once: on a GPU, where the recurrent matrix fits on chip."""
    if x.numel() == 0 or not available(weight_hh):
        return False
    from porism.layers.recurrent.elman.kernels import triton

    return triton.launch(x.shape[1], weight_hh) is not None


def _forward(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    nonlinearity: str,
) -> Tensor:
    kernel = cpu.forward
    if runs_on_chip(x, weight_hh):
        from porism.layers.recurrent.elman.kernels import triton

        kernel = triton.forward
    return kernel(x, h0, weight_ih, weight_hh, bias, mask, nonlinearity)


def _shape_of_states(x: Tensor, h0: Tensor, *_: Any) -> Tensor:
    return h0.new_empty(len(x) + 1, *h0.shape)


def _shapes_of_gradients(
    dy: Tensor, x: Tensor, h: Tensor, weight_ih: Tensor, weight_hh: Tensor, mask: Any, nonlinearity: str, needed: Any
) -> tuple[Tensor, ...]:
    shapes = (x.shape, h[0].shape, weight_ih.shape, weight_hh.shape, (len(weight_hh),))
    return tuple(
        like.new_empty(shape) if is_needed else like.new_empty(0)
        for like, shape, is_needed in zip((x, h, x, h, x), shapes, needed, strict=True)
    )


def _backward(
    dy: Tensor,
    x: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    mask: Tensor | None,
    nonlinearity: str,
    needed: list[bool],
) -> tuple[Tensor, ...]:
    scan = back_through_time
    if runs_on_chip(x, weight_hh):
        from porism.layers.recurrent.elman.kernels import triton

        scan = triton.back_through_time
    found = layer_gradient(dy, x, h, weight_ih.mT, weight_hh.mT, nonlinearity, mask, tuple(needed), scan)
    dx, dh0, dI, dH, db = (
        like.new_empty(0) if part is None else part for part, like in zip(found, (x, h, x, h, x), strict=True)
    )
    return dx, dh0, dI.mT if needed[2] else dI, dH.mT if needed[3] else dH, db


def _flops(x: Any, h0: Any, *_: Any, **__: Any) -> int:
    """x I over all rows, and h H at every step."""
    (T, B, D), (_, H) = x, h0
    return int(2 * T * B * H * (D + H))


def _backward_flops(dy: Any, x: Any, *rest: Any, **__: Any) -> int:
    """Each product of the forward pass turns into two: of its left operand and of its right one."""
    (T, B, H), D, needed = dy, x[-1], rest[-1]
    dx, dh0, dI, dH, _ = needed
    return int(2 * T * B * H * (D * (dx + dI) + H * dH) + 2 * B * H * H * (T - 1 + dh0))


OPERATOR = register(
    "elman(Tensor x, Tensor h0, Tensor weight_ih, Tensor weight_hh, Tensor? bias, Tensor? mask, str nonlinearity) "
    "-> Tensor",
    _forward,
    _shape_of_states,
    _flops,
)
BACKWARD = register(
    "elman_backward(Tensor dy, Tensor x, Tensor h, Tensor weight_ih, Tensor weight_hh, Tensor? mask, str nonlinearity, "
    "bool[] needed) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _shapes_of_gradients,
    _backward_flops,
)


class ElmanFunction(Function):
    """Every state h[1] to h[T], and h[0] to h[T] for the backward pass: the same memory where it is `shared`.

    Changes in place are noticed there. Elsewhere the states are a copy.
    """

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, Tensor]:
        *operands, shared = args
        h: Tensor = run(OPERATOR, *operands)
        # No view of h to autograd, so that users may change it in place.
        return h[1:].data if shared else own_memory(h[1:]), h

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, _, weight_ih, weight_hh, bias, mask, nonlinearity, shared = inputs
        y, h = output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, h, weight_ih, weight_hh, bias, mask)
        ctx.nonlinearity = nonlinearity
        ctx.watch = InPlaceWatch(y) if shared else None

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dh: Tensor | None) -> tuple[Tensor | None, ...]:
        x, h, weight_ih, weight_hh, bias, mask = ctx.saved_tensors
        with without_autocast(h):
            if ctx.watch is not None and ctx.watch.changed:
                operands = (x, h[0], weight_ih, weight_hh, bias, mask)
                _, h = ElmanFunction.apply(*operands, ctx.nonlinearity, False)
            # A second derivative reaches the states themselves: dh.
            if dh is not None:
                dy = dh[1:] if dy is None else dy + dh[1:]
            if dy is None:
                return (None,) * 8
            needed = list(ctx.needs_input_grad[:5])
            found = call_backward(ElmanBackward, dy, x, h, weight_ih, weight_hh, mask, ctx.nonlinearity, needed)
        dx, dh0, *rest = (part if is_needed else None for part, is_needed in zip(found, needed, strict=True))
        if dh is not None and dh0 is not None:
            dh0 = dh0 + dh[0]
        return dx, dh0, *rest, None, None, None


class ElmanBackward(Function):
    """The gradients of x, h[0], both weights and the bias; empty where they are not needed."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *operands, nonlinearity, needed = inputs
        ctx.save_for_backward(*operands)
        ctx.nonlinearity, ctx.needed = nonlinearity, needed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The second derivative, by autograd of the same lines without operations in place: as nn.RNN has it."""
        *operands, mask = ctx.saved_tensors

        def needed_gradients(dy: Tensor, x: Tensor, h: Tensor, weight_ih: Tensor, weight_hh: Tensor) -> list[Tensor]:
            found = differentiable_gradient(dy, x, h, weight_ih, weight_hh, ctx.nonlinearity, mask)
            return [part for part, is_needed in zip(found, ctx.needed, strict=True) if is_needed]

        pull_back: Any = torch.func.vjp(needed_gradients, *operands)[1]
        given = [part for part, is_needed in zip(gradients, ctx.needed, strict=True) if is_needed]
        return *pull_back(given), None, None, None


differentiate(ElmanFunction, OPERATOR, lambda *args: ElmanFunction.apply(*args, False)[1])
differentiate(ElmanBackward, BACKWARD)


def check_nonlinearity(nonlinearity: str) -> None:
    if nonlinearity not in tuple(ACTIVATE):
        raise ShapeError(f"elman: nonlinearity is {nonlinearity!r}. Choose from {', '.join(ACTIVATE)}.")


def _check(x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str) -> None:
    check_nonlinearity(nonlinearity)
    check_operands("elman", input=x, hx=h0, weight_ih=weight_ih, weight_hh=weight_hh, bias=bias)
    shape, recurrent = x.shape, weight_hh.shape
    if len(shape) != 3 or shape[0] == 0:
        raise ShapeError(f"elman: input is {tuple(shape)}, expected (T, B, D) with T from 1 on. Reshape it.")
    if len(recurrent) != 2:
        raise ShapeError(f"elman: weight_hh is {tuple(recurrent)}, expected (H, H). Reshape weight_hh.")
    (_, B, D), H = shape, recurrent[0]
    for name, part, expected in (
        ("hx", h0, (B, H)),
        ("weight_ih", weight_ih, (H, D)),
        ("weight_hh", weight_hh, (H, H)),
        ("bias", bias, (H,)),
    ):
        if part is not None and part.shape != expected:
            raise ShapeError(
                f"elman: {name} is {tuple(part.shape)}, expected {expected} for input {tuple(shape)}. Reshape {name}."
            )
