"""The functional form: one layer in one direction, by torch's own kernels or step by step."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype
from porism.layers.operands import check_operands, is_transformed


def lstm(
    input: Tensor,
    hx: tuple[Tensor, Tensor],
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One layer, one direction: every state, and the last one with its memory.

    >>> T, B, D, H = 10, 4, 50, 100
    >>> hx = torch.zeros(B, H), torch.zeros(B, H)
    >>> y, (h, c) = lstm(torch.randn(T, B, D), hx, torch.randn(4 * H, D), torch.randn(4 * H, H))
    >>> y.shape, h.shape, c.shape
    (torch.Size([10, 4, 100]), torch.Size([4, 100]), torch.Size([4, 100]))

    `mask` (B, H) is multiplied into each h[t-1], dropout of what is fed back. Torch's kernels know none, nor the
    transforms of torch.func: then the steps are taken one by one.

    Shapes: input (T, B, D), hx two of (B, H), weight_ih (4H, D), weight_hh (4H, H), biases (4H) -> y (T, B, H), h and c
    (B, H). The gates stand in torch's order: in, forget, new, out.
    """
    h0, c0 = hx
    _check(input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh)
    operands = input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh
    dtype = autocast_dtype(input, weight_ih) if input.is_cpu else None
    if dtype is not None:
        # Not every CPU has torch's kernel for this type. Products are of it, the memory is not.
        y, (h, c) = by_steps(*operands, mask)
        return y.to(dtype), (h.to(dtype), c.to(dtype))
    if mask is not None or is_transformed(*operands):
        return by_steps(*operands, mask)
    weights = [part for part in (weight_ih, weight_hh, bias_ih, bias_hh) if part is not None]
    y, h, c = torch._VF.lstm(input, (h0[None], c0[None]), weights, bias_ih is not None, 1, 0.0, False, False, False)
    return y, (h[0], c[0])


def by_steps(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """`lstm` in torch's plain operations, for a mask of the state that is fed back, and for torch.func's transforms."""
    bias = None if bias_ih is None or bias_hh is None else bias_ih + bias_hh
    # One product over all T B rows; the steps add what is fed back.
    inputs = torch.nn.functional.linear(x, weight_ih, bias)
    states = []
    for inputs_t in inputs:
        let_in, forget, new, let_out = torch.addmm(inputs_t, h if mask is None else h * mask, weight_hh.mT).chunk(4, 1)
        # c[t] = f c[t-1] + i u,   h[t] = o tanh(c[t])
        c = torch.sigmoid(forget) * c + torch.sigmoid(let_in) * torch.tanh(new)
        h = torch.sigmoid(let_out) * torch.tanh(c)
        states.append(h)
    return torch.stack(states), (h, c)


def _check(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
) -> None:
    check_operands(
        "lstm", input=x, h_0=h0, c_0=c0, weight_ih=weight_ih, weight_hh=weight_hh, bias_ih=bias_ih, bias_hh=bias_hh
    )
    if x.dim() != 3 or len(x) == 0:
        raise ShapeError(f"lstm: input is {tuple(x.shape)}, wanted (T, B, D) with T from 1 on. Reshape it.")
    if weight_hh.dim() != 2:
        raise ShapeError(f"lstm: weight_hh is {tuple(weight_hh.shape)}, wanted (4 H, H). Reshape weight_hh.")
    if (bias_ih is None) != (bias_hh is None):
        raise ShapeError("lstm: one bias was given, wanted two or none. Give zeros for the other.")
    (_, B, D), H = x.shape, weight_hh.shape[1]
    expected = {
        "h_0": ((B, H), h0),
        "c_0": ((B, H), c0),
        "weight_ih": ((4 * H, D), weight_ih),
        "weight_hh": ((4 * H, H), weight_hh),
        "bias_ih": ((4 * H,), bias_ih),
        "bias_hh": ((4 * H,), bias_hh),
    }
    for name, (shape, part) in expected.items():
        if part is not None and tuple(part.shape) != shape:
            raise ShapeError(
                f"lstm: {name} is {tuple(part.shape)}, wanted {shape} for input {tuple(x.shape)}. Reshape {name}."
            )
