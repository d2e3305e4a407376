"""The operator of the series, forward and backward: what autograd, compilers, vmap and FLOP counters see of it."""

from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from porism.layers.attention.pattern import Kind, Pattern
from porism.layers.attention.taylor.feature_maps import MAPS
from porism.layers.attention.taylor.gradient import SeriesGradient, gradient
from porism.layers.attention.taylor.kernels import cpu
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings
from porism.layers.autocast import without_autocast
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    register,
    watch_of,
)


def series(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    settings: SeriesSettings,
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    answer, _, last = call(OPERATOR, TaylorFunction, q, k, v, key_padding, log_decay, first, *_flat(settings))
    return answer, last


class TaylorFunction(Function):
    """`porism::taylor` with the backward pass by hand: kept are the operands, the answer and the sums of weights."""

    is_batched = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        answer, totals, _ = output
        ctx.settings, ctx.watch = inputs[6:], watch_of(answer)
        ctx.save_for_backward(*inputs[:6], answer if ctx.watch is None else answer.data, totals)
        ctx.mark_non_differentiable(totals)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dz: Tensor | None, _: None, dlast: Tensor | None) -> tuple[Tensor | None, ...]:
        *operands, answer, totals = ctx.saved_tensors
        dz = torch.zeros_like(answer) if dz is None else dz
        with without_autocast(dz):
            if ctx.watch is not None and ctx.watch.changed:
                answer, _, _ = TaylorFunction.forward(*operands, *ctx.settings)
            args = dz, dlast, *operands, answer, totals, *ctx.settings
            dq, dk, dv, *rest = call_backward(TaylorBackward, *args)
        dlog_decay, dfirst = (None if x is None else dx for x, dx in zip(operands[4:], rest, strict=True))
        return dq, dk, dv, None, dlog_decay, dfirst, *(None,) * len(ctx.settings)


class TaylorBackward(BackwardFunction):
    """`porism::taylor_backward`."""

    is_batched = True


def _flat(settings: SeriesSettings) -> tuple[Any, ...]:
    """As operators take them."""
    map, order, pattern, *rest = settings
    return map, order, pattern.kind, pattern.window_size, *rest


def _settings(map: str, order: int, kind: str, window: int | None, *rest: Any) -> SeriesSettings:
    return SeriesSettings(map, order, _pattern(kind, window), *rest)


@lru_cache
def _pattern(kind: str, window: int | None) -> Pattern:
    return Pattern(cast(Kind, kind), window)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    *flat: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    answer, totals, last = cpu.forward(_settings(*flat), q, k, v, key_padding, log_decay, first)
    # No view, so that autograd lets users change it in place.
    return answer.data, totals, last


def _forward_on_device(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    *flat: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    settings = _settings(*flat)
    if not kernels.serves(settings, q, k, v):
        return _forward(q, k, v, key_padding, log_decay, first, *flat)
    answer, totals, last = kernels.forward(settings, q, k, v, key_padding, log_decay, first)
    return answer.data, totals, last


def _backward(dz: Tensor, dlast: Tensor | None, *rest: Any) -> SeriesGradient:
    q, k, v, key_padding, log_decay, first, answer, totals, *flat = rest
    return gradient(_settings(*flat), dz, dlast, q, k, v, key_padding, log_decay, first, answer, totals)


def _backward_on_device(
    dz: Tensor, dlast: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> SeriesGradient:
    key_padding, log_decay, first, answer, totals, *flat = rest
    settings = _settings(*flat)
    # Of one token with decay the compiler (Triton 3.6) made code that, at D = 32, ended in an illegal memory access.
    is_single = log_decay is not None and k.shape[2] == 1
    if is_single or not kernels.serves(settings, q, k, v):
        return gradient(settings, dz, dlast, q, k, v, key_padding, log_decay, first, answer, totals)
    return kernels.backward(settings, dz, dlast, q, k, v, key_padding, log_decay, first, answer, totals)


def _outline(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Any, log_decay: Any, first: Any, map: str, order: int, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    B, A, T, H = *q.shape[:3], v.shape[3]
    exact = torch.promote_types(q.dtype, torch.float32)
    state = (B * k.shape[1], MAPS[map].size(order, q.shape[3]), H + 1) if rest[-1] else (0,)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    return answer, q.new_empty(B, A, T, 1, dtype=exact), q.new_empty(state, dtype=exact)


def backward_outline(dz: Tensor, dlast: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Gradients without numbers, of q, k, v and the first state, which may be None: the second of the rest."""
    first, exact = rest[1], torch.promote_types(q.dtype, torch.float32)
    state = q.new_empty(0, dtype=exact) if first is None else first.new_empty(first.shape)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), state


def _backward_outline(
    dz: Tensor, dlast: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Any, log_decay: Any, *rest: Any
) -> tuple[Tensor, ...]:
    dq, dk, dv, dstate = backward_outline(dz, dlast, q, k, v, key_padding, *rest)
    return dq, dk, dv, q.new_empty(0) if log_decay is None else log_decay.new_empty(log_decay.shape), dstate


def _flops(q: Any, k: Any, v: Any, key_padding: Any, log_decay: Any, first: Any, *flat: Any, **_: Any) -> int:
    return sum(cpu.products(_settings(*flat), q, k, v))


def _backward_flops(dz: Any, dlast: Any, q: Any, k: Any, v: Any, *rest: Any, **_: Any) -> int:
    return cpu.products(_settings(*rest[5:]), q, k, v).backward()


_OPERANDS = "Tensor q, Tensor k, Tensor v, Tensor? key_padding, Tensor? log_decay, Tensor? first"
_SETTINGS = "str map, int order, str kind, int? window, float scale, int offset, bool return_state"

OPERATOR = register(
    f"taylor({_OPERANDS}, {_SETTINGS}) -> (Tensor, Tensor, Tensor)", _forward, _outline, _flops, _forward_on_device
)
BACKWARD_OPERATOR = register(
    f"taylor_backward(Tensor dz, Tensor? dlast, {_OPERANDS}, Tensor answer, Tensor totals, {_SETTINGS}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_outline,
    _backward_flops,
    _backward_on_device,
)
differentiate(TaylorFunction, OPERATOR)
differentiate(TaylorBackward, BACKWARD_OPERATOR)
