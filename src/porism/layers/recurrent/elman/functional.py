"""The functional form: one layer in one direction, and the loop over time behind it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only, own_memory
from porism.layers.operands import check_operands
from porism.layers.recurrent.elman.gradient import Wanted, layer_gradient
from porism.layers.recurrent.elman.kernels.cudnn import fused

_ACTIVATE = {"sigmoid": torch.sigmoid_, "tanh": torch.tanh_, "relu": torch.relu_}


def elman(
    x: Tensor,
    h0: Tensor,
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

    Shapes: x (T, B, D), h0 (B, H), weight_ih (H, D), weight_hh (H, H), bias (H) -> y (T, B, H), h (B, H).
    Under autocast the product with x runs in its type, the recurrence in float32: there rounding errors would be fed
    back at every step.
    """
    y = states(x, h0, weight_ih, weight_hh, bias, nonlinearity)
    # Memory of its own: a user who changes the last state in place, does not mean y.
    return y, y[-1].clone()


def states(
    x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str
) -> Tensor:
    """Every state of `elman`, (T, B, H)."""
    _check(x, h0, weight_ih, weight_hh, bias, nonlinearity)
    if product := autocast_dtype(x):
        dtype = torch.promote_types(weight_hh.dtype, torch.float32)
        # cuDNN has one type for all.
        product = dtype if x.is_cuda else product
        x, weight_ih, h0, weight_hh = x.to(product), weight_ih.to(product), h0.to(dtype), weight_hh.to(dtype)
        bias = None if bias is None else bias.to(product)
    with without_autocast(x):
        # cuDNN is built for single precision and below.
        if x.is_cuda and x.dtype != torch.float64:
            return fused(x, h0, weight_ih, weight_hh, bias, nonlinearity)
        # Both passes read x by rows, a step of a sequence each: where they lie otherwise they are copied once.
        x = x.contiguous()
        if not torch.is_grad_enabled():
            return _loop(x, h0, weight_ih, weight_hh, bias, nonlinearity)[1:]
        y: Tensor = _Recurrence.apply(x, h0, weight_ih, weight_hh, bias, nonlinearity)  # type: ignore[no-untyped-call]
    return y


class _Recurrence(torch.autograd.Function):
    """The loop over time with the backward pass of `gradient.py`.

    In the backward pass the sum over time is one large matrix product; only what must wait for its turn is in a loop.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h0: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias: Tensor | None,
        nonlinearity: str,
    ) -> Tensor:
        h = _loop(x, h0, weight_ih, weight_hh, bias, nonlinearity)
        ctx.save_for_backward(x, h, weight_ih, weight_hh, bias)
        ctx.nonlinearity = nonlinearity
        if torch.compiler.is_compiling():
            ctx.watch = None
            return own_memory(h[1:])
        # No view of h to autograd, so that users may change it in place.
        y = h[1:].data
        ctx.watch = InPlaceWatch(y)
        return y

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, h, weight_ih, weight_hh, bias = ctx.saved_tensors
        with without_autocast(dy):
            if ctx.watch is not None and ctx.watch.changed:
                h = _loop(x, h[0], weight_ih, weight_hh, bias, ctx.nonlinearity)
            wanted = Wanted(*ctx.needs_input_grad[:5])
            dx, dh0, dI, dH, db = layer_gradient(dy, x, h, weight_ih.mT, weight_hh.mT, ctx.nonlinearity, wanted)
        return dx, dh0, None if dI is None else dI.mT, None if dH is None else dH.mT, db, None


def _loop(
    x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str
) -> Tensor:
    """h[0] to h[T], (T+1, B, H)."""
    # One product over all T B rows; it is not fed back, so it may be of a lower type.
    inputs = linear(x, weight_ih, bias).to(h0.dtype)
    h = inputs.new_empty(len(x) + 1, *h0.shape)
    h[0] = h0
    activate, transposed = _ACTIVATE[nonlinearity], weight_hh.mT
    for inputs_t, h_before, h_t in zip(inputs, h[:-1], h[1:], strict=True):
        # h[t] = act(x[t] I + h[t-1] H + b)
        activate(torch.addmm(inputs_t, h_before, transposed, out=h_t))
    return h


def check_nonlinearity(nonlinearity: str) -> None:
    if nonlinearity not in tuple(_ACTIVATE):
        raise ShapeError(f"elman: nonlinearity is {nonlinearity!r}. Choose from {', '.join(_ACTIVATE)}.")


def _check(x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str) -> None:
    check_nonlinearity(nonlinearity)
    check_operands("elman", x=x, h0=h0, weight_ih=weight_ih, weight_hh=weight_hh, bias=bias)
    if x.dim() != 3 or len(x) == 0:
        raise ShapeError(f"elman: x is {tuple(x.shape)}, wanted (T, B, D) with T from 1 on. Reshape x.")
    if weight_hh.dim() != 2:
        raise ShapeError(f"elman: weight_hh is {tuple(weight_hh.shape)}, wanted (H, H). Reshape weight_hh.")
    (_, B, D), H = x.shape, len(weight_hh)
    wanted = {"h0": (B, H), "weight_ih": (H, D), "weight_hh": (H, H), "bias": (H,)}
    for (name, shape), part in zip(wanted.items(), (h0, weight_ih, weight_hh, bias), strict=True):
        if part is not None and tuple(part.shape) != shape:
            raise ShapeError(
                f"elman: {name} is {tuple(part.shape)}, wanted {shape} for x {tuple(x.shape)}. Reshape {name}."
            )
