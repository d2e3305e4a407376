"""The functional form: one layer in one direction, and the loop over time behind it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import first_derivative_only
from porism.layers.elman.cudnn import fused
from porism.layers.elman.gradient import recurrence_gradient

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
    _check(x, h0, weight_ih, weight_hh, bias, nonlinearity)
    dtype = x.dtype if autocast_dtype(x) is None else torch.promote_types(weight_hh.dtype, torch.float32)
    # cuDNN is built for single precision and below.
    if x.is_cuda and dtype != torch.float64:
        with without_autocast(x):
            x, h0, weight_ih, weight_hh = (part.to(dtype) for part in (x, h0, weight_ih, weight_hh))
            y = fused(x, h0, weight_ih, weight_hh, None if bias is None else bias.to(dtype), nonlinearity)
    else:
        # One product over all T B rows; it is not fed back, so autocast may have it.
        inputs = linear(x.flatten(0, 1), weight_ih, bias).view(*x.shape[:2], -1).to(dtype)
        with without_autocast(x):
            y = _Recurrence.apply(inputs, h0.to(dtype), weight_hh.to(dtype), nonlinearity)  # type: ignore[no-untyped-call]
    return y, y[-1]


class _Recurrence(torch.autograd.Function):
    """The loop over time with the backward pass of `gradient.py`: h[t] = act(inputs[t] + h[t-1] H).

    In the backward pass the sum over time is one large matrix product; only what must wait for its turn is in a loop.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, h0: Tensor, weight_hh: Tensor, nonlinearity: str) -> Tensor:
        states = inputs.new_empty(len(inputs) + 1, *h0.shape)
        states[0] = h0
        for t, now in enumerate(inputs):
            torch.addmm(now, states[t], weight_hh.mT, out=states[t + 1])
            _ACTIVATE[nonlinearity](states[t + 1])
        ctx.save_for_backward(states, weight_hh)
        ctx.nonlinearity = nonlinearity
        return states[1:]

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        states, weight_hh = ctx.saved_tensors
        with without_autocast(dy):
            delta, dh0, dH = recurrence_gradient(dy, states, weight_hh.mT, ctx.nonlinearity, ctx.needs_input_grad[1])
        return delta, dh0, dH.mT, None


def check_nonlinearity(nonlinearity: str) -> None:
    if nonlinearity not in _ACTIVATE:
        raise ShapeError(f"elman: nonlinearity is {nonlinearity!r}. Choose from {', '.join(_ACTIVATE)}.")


def _check(x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str) -> None:
    check_nonlinearity(nonlinearity)
    if x.dim() != 3 or len(x) == 0:
        raise ShapeError(f"elman: x is {tuple(x.shape)}, wanted (T, B, D) with T from 1 on. Reshape x.")
    (_, B, D), H = x.shape, len(weight_hh)
    wanted = {"h0": (B, H), "weight_ih": (H, D), "weight_hh": (H, H), "bias": (H,)}
    for (name, shape), part in zip(wanted.items(), (h0, weight_ih, weight_hh, bias), strict=True):
        if part is None:
            continue
        if tuple(part.shape) != shape:
            raise ShapeError(
                f"elman: {name} is {tuple(part.shape)}, wanted {shape} for x {tuple(x.shape)}. Reshape {name}."
            )
        if part.dtype != x.dtype and autocast_dtype(x) is None:
            raise ShapeError(
                f"elman: x is {x.dtype}, {name} is {part.dtype}, wanted one type. Convert x with x.to({part.dtype})."
            )
