"""The functional form: one layer in one direction, as one operator with its gradient."""

import platform
from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import InPlaceWatch, own_memory
from porism.layers.kernels import available
from porism.layers.operands import check_operands, is_transformed
from porism.layers.operators import Function, call_backward, differentiate, is_recorded, register, run
from porism.layers.recurrent.elman.kernels.cudnn import in_one_chunk
from porism.layers.recurrent.lstm.gradient import gradient, layer_gradient
from porism.layers.recurrent.lstm.kernels import cpu

FUSED_ON_CPU = platform.machine() in ("x86_64", "AMD64")
"""Torch's kernel on x86 takes 0.7 to 0.8 of our time. On ARM it takes longer, but for one sequence."""


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

    `mask` (B, H) is multiplied into each h[t-1], dropout of what is fed back. Under autocast products run in its type;
    on a CPU the recurrence stays in float32, where rounding errors would be fed back at every step.

    Shapes: input (T, B, D), hx two of (B, H), weight_ih (4H, D), weight_hh (4H, H), biases (4H) -> y (T, B, H), h and c
    (B, H). The gates stand in torch's order: in, forget, new, out.
    """
    h0, c0 = hx
    _check(input, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh)
    x, bias = input, None if bias_ih is None or bias_hh is None else bias_ih + bias_hh
    if dtype := autocast_dtype(x, weight_ih):
        # cuDNN and our kernels on a GPU have one type for all but the memory.
        recurrent = dtype if x.is_cuda else torch.promote_types(weight_hh.dtype, torch.float32)
        x, weight_ih, bias = x.to(dtype), weight_ih.to(dtype), None if bias is None else bias.to(dtype)
        h0, c0, weight_hh = (part.to(recurrent) for part in (h0, c0, weight_hh))
        mask = None if mask is None else mask.to(recurrent)
    with without_autocast(x):
        operands = (x, h0, c0, weight_ih, weight_hh, bias, mask)
        if is_transformed(x, h0, c0, weight_ih, weight_hh, bias, mask):
            y, h, c = by_steps(*operands)
        elif mask is None and torch_is_faster(x, x.shape[1], weight_hh) and x.dtype == h0.dtype:
            y, h, c = _by_torch(x, h0, c0, weight_ih, weight_hh, bias)
        else:
            # Both passes read x by rows, a step of a sequence each: where they lie otherwise they are copied once.
            y, c = _states(x.contiguous(), *operands[1:])
            # The last state has memory of its own: a user who changes it in place, does not mean y.
            h = y[-1].clone()
    return (y.to(dtype), (h.to(dtype), c.to(dtype))) if dtype else (y, (h, c))


def _states(*operands: Any) -> tuple[Tensor, Tensor]:
    """Every state (T, B, H) and the last memory (B, H), by the operator."""
    if torch.compiler.is_compiling():
        h, c, *_ = OPERATOR(*operands)
        return own_memory(h[1:]) if is_recorded(operands) else h[1:], c
    transformed = torch._C._are_functorch_transforms_active()
    if not transformed and not is_recorded(operands):
        h, c, *_ = run(OPERATOR, *operands)
        return h[1:], c
    y, c, *_ = LSTMFunction.apply(*operands, not transformed)
    return y, c


def torch_is_faster(x: Tensor, B: int, weight_hh: Tensor) -> bool:
    """Whether torch has a kernel for all steps of B sequences on x's device that is as fast as ours or faster.

    Compiled code on a CPU takes ours, since torch 2.11 gives last states of another shape there; on a GPU it takes
    cuDNN's, as launches are chosen from sizes that it may not know.
    """
    if x.is_cuda:
        return torch.compiler.is_compiling() or not _scans_are_faster(x, B, weight_hh)
    return x.is_cpu and FUSED_ON_CPU and not torch.compiler.is_compiling()


def _scans_are_faster(x: Tensor, B: int, weight_hh: Tensor) -> bool:
    """Whether our scans on a GPU are faster than cuDNN's kernels: in two bytes, where no sequences wait for others."""
    dtype = autocast_dtype(x) or x.dtype
    if dtype.itemsize != 2 or x.numel() == 0 or not available(weight_hh):
        return False
    from porism.layers.recurrent.lstm.kernels import triton

    found = [triton.launch(B, weight_hh.shape[1], dtype, x.device, back) for back in (False, True)]
    return all(one is not None and one.takes_all_at_once(B) for one in found)


def _by_torch(
    x: Tensor, h0: Tensor, c0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    weights = [weight_ih, weight_hh] if bias is None else [weight_ih, weight_hh, bias, torch.zeros_like(bias)]
    h0, c0 = (part.contiguous()[None] for part in (h0, c0))
    weights = in_one_chunk(weights) if x.is_cuda else weights
    # cuDNN goes back only through what it computed in training mode; dropout is 0 in either.
    train = torch.is_grad_enabled()
    y, h, c = torch._VF.lstm(x, (h0, c0), weights, bias is not None, 1, 0.0, train, False, False)
    return y, h[0], c[0]


def by_steps(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Every state, the last one and its memory in torch's plain operations, for torch.func's transforms."""
    # One product over all T B rows; the steps add what is fed back.
    inputs = torch.nn.functional.linear(x, weight_ih, bias).to(h.dtype)
    states = []
    for inputs_t in inputs:
        let_in, forget, new, let_out = torch.addmm(inputs_t, h if mask is None else h * mask, weight_hh.mT).chunk(4, 1)
        # c[t] = f c[t-1] + i u,   h[t] = o tanh(c[t])
        c = torch.sigmoid(forget) * c + torch.sigmoid(let_in) * torch.tanh(new)
        h = torch.sigmoid(let_out) * torch.tanh(c)
        states.append(h)
    return torch.stack(states), h, c


def runs_on_chip(x: Tensor, weight_hh: Tensor) -> bool:
    """Whether there are kernels for all steps at once: on a GPU, where the recurrent matrix fits on chip both ways."""
    if x.numel() == 0 or not available(weight_hh):
        return False
    from porism.layers.recurrent.lstm.kernels import triton

    B, H = x.shape[1], weight_hh.shape[1]
    return all(triton.launch(B, H, weight_hh.dtype, x.device, back) is not None for back in (False, True))


def _forward(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h[0] to h[T] (T+1, B, H), c[T] (B, H), and for the backward pass c[0] to c[T] and the gates (T, B, 4H)."""
    kernel = cpu.forward
    if runs_on_chip(x, weight_hh):
        from porism.layers.recurrent.lstm.kernels import triton

        kernel = triton.forward
    h, c, gates = kernel(x, h0, c0, weight_ih, weight_hh, bias, mask)
    return h, c[-1].to(h.dtype, copy=True), c, gates


def _backward(
    dy: Tensor,
    dc: Tensor,
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    h: Tensor,
    c: Tensor,
    gates: Tensor,
    needed: list[bool],
) -> tuple[Tensor, ...]:
    """The gradients of x, h[0], c[0], both weights and the bias; empty where they are not needed."""
    scan = cpu.back_through_time
    if runs_on_chip(x, weight_hh):
        from porism.layers.recurrent.lstm.kernels import triton

        scan = triton.back_through_time
    needs_x, needs_h0, needs_c0, *needs_rest = needed
    delta, dc0 = scan(dy, dc, c, gates, weight_hh, mask)
    # dh[0] in any case, as torch's kernels do: so that every kernel of the layer has the same cost.
    dx, dh0, *rest = layer_gradient(delta, x, h, weight_ih, weight_hh, mask, [needs_x, *needs_rest])
    found = (dx, dh0 if needs_h0 else None, dc0.to(c0.dtype) if needs_c0 else None, *rest)
    likes = (x, h, c0, x, h, x)
    return tuple(like.new_empty(0) if part is None else part for part, like in zip(found, likes, strict=True))


def _shapes(x: Tensor, h0: Tensor, *_: Any) -> tuple[Tensor, ...]:
    (T, B), H = x.shape[:2], h0.shape[1]
    c = h0.new_empty(T + 1, B, H, dtype=torch.promote_types(h0.dtype, torch.float32))
    return h0.new_empty(T + 1, B, H), h0.new_empty(B, H), c, h0.new_empty(T, B, 4 * H)


def _shapes_of_gradients(dy: Tensor, dc: Any, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    h0, c0, weight_ih, weight_hh, *_, needed = rest
    shapes = (x.shape, h0.shape, c0.shape, weight_ih.shape, weight_hh.shape, (len(weight_hh),))
    likes = (x, h0, c0, x, h0, x)
    return tuple(
        like.new_empty(shape if is_needed else 0) for like, shape, is_needed in zip(likes, shapes, needed, strict=True)
    )


def _flops(x: Any, h0: Any, *_: Any, **__: Any) -> int:
    """x I over all rows, and h H at every step."""
    (T, B, D), (_, H) = x, h0
    return int(8 * T * B * H * (D + H))


def _backward_flops(dy: Any, dc: Any, x: Any, *rest: Any, **__: Any) -> int:
    """Each product of the forward pass turns into two: of its left operand and of its right one."""
    (T, B, D), H, needed = x, dy[-1], rest[-1]
    dx, _, _, dI, dH, _ = needed
    return int(8 * T * B * H * (D * (dx + dI) + H * (1 + dH)))


_OPERANDS = (
    "Tensor x, Tensor h0, Tensor c0, Tensor weight_ih, Tensor weight_hh, Tensor? bias, Tensor? mask"  # of both passes
)
OPERATOR = register(f"lstm({_OPERANDS}) -> (Tensor, Tensor, Tensor, Tensor)", _forward, _shapes, _flops)
BACKWARD = register(
    f"lstm_backward(Tensor dy, Tensor dc, {_OPERANDS}, Tensor h, Tensor c, Tensor gates, bool[] needed) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _shapes_of_gradients,
    _backward_flops,
)


class LSTMFunction(Function):
    """Every state h[1] to h[T] and c[T]; then h[0] to h[T], c[0] to c[T] and the gates for the backward pass.

    The states are the same memory in both where it is `shared`: changes in place are noticed there. Elsewhere the first
    are a copy.
    """

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        *operands, shared = args
        h, last, c, gates = run(OPERATOR, *operands)
        # No view of h to autograd, so that users may change it in place.
        return h[1:].data if shared else own_memory(h[1:]), last, h, c, gates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *operands, shared = inputs
        y, _, h, c, gates = output
        ctx.mark_non_differentiable(c, gates)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands, h, c, gates)
        ctx.watch = InPlaceWatch(y) if shared else None

    @staticmethod
    def backward(
        ctx: Any, dy: Tensor | None, dc: Tensor | None, dh: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        *operands, h, c, gates = ctx.saved_tensors
        with without_autocast(h):
            if ctx.watch is not None and ctx.watch.changed:
                with torch.no_grad():
                    h, _, c, gates = OPERATOR(*operands)
            if dh is not None:
                dy = dh[1:] if dy is None else dy + dh[1:]
            if dy is None:
                dy = torch.zeros_like(h[1:])
            if dc is None:
                dc = torch.zeros_like(c[-1])
            needed = list(ctx.needs_input_grad[:6])
            found = call_backward(LSTMBackward, dy, dc, *operands, h, c, gates, needed)
        dx, dh0, *rest = (part if is_needed else None for part, is_needed in zip(found, needed, strict=True))
        if dh is not None and dh0 is not None:
            dh0 = dh0 + dh[0]
        return dx, dh0, *rest, None, None


class LSTMBackward(Function):
    """The gradients of x, h[0], c[0], both weights and the bias; empty where they are not needed."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *operands, _, _, _, needed = inputs
        ctx.save_for_backward(*operands)
        ctx.needed = needed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The second derivative, by autograd of the same lines without operations in place: as nn.LSTM has it."""
        dy, dc, x, h0, c0, weight_ih, weight_hh, bias, mask = ctx.saved_tensors

        def needed_gradients(*point: Tensor) -> list[Tensor]:
            dy, dc, x, h0, c0, weight_ih, weight_hh, *b = point
            found = gradient(dy, x, h0, c0, weight_ih.mT, weight_hh.mT, b[0] if b else None, mask, dc)
            ours = (found.x, found.h0, found.c0, found.I.mT, found.H.mT, found.b)
            return [part for part, is_needed in zip(ours, ctx.needed, strict=True) if is_needed]

        point = [dy, dc, x, h0, c0, weight_ih, weight_hh] + ([] if bias is None else [bias])
        pull_back: Any = torch.func.vjp(needed_gradients, *point)[1]
        given = [part for part, is_needed in zip(gradients, ctx.needed, strict=True) if is_needed]
        found = list(pull_back(given)) + ([None] if bias is None else [])
        return *found, None, None, None, None, None


differentiate(LSTMFunction, OPERATOR, lambda *args: _answers(*LSTMFunction.apply(*args, False)))
differentiate(LSTMBackward, BACKWARD)


def _answers(_: Tensor, last: Tensor, h: Tensor, c: Tensor, gates: Tensor) -> tuple[Tensor, ...]:
    """Of the operator, from those of its Function."""
    return h, last, c, gates


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
        raise ShapeError(f"lstm: input is {tuple(x.shape)}, expected (T, B, D) with T from 1 on. Reshape it.")
    if weight_hh.dim() != 2:
        raise ShapeError(f"lstm: weight_hh is {tuple(weight_hh.shape)}, expected (4 H, H). Reshape weight_hh.")
    if (bias_ih is None) != (bias_hh is None):
        raise ShapeError("lstm: one bias was given, expected two or none. Give zeros for the other.")
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
                f"lstm: {name} is {tuple(part.shape)}, expected {shape} for input {tuple(x.shape)}. Reshape {name}."
            )
