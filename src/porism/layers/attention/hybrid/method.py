"""Attention that is softmax within a window and its series beyond: the method and its operator."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.hybrid.gradient import HybridGradient, gradient
from porism.layers.attention.hybrid.kernels import step
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.hybrid.kernels.cpu import Passed, forward, products
from porism.layers.attention.hybrid.kernels.spans import HybridSettings
from porism.layers.attention.hybrid.state import HybridState
from porism.layers.attention.method import ORDER, Method, linear_trials, trial
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.taylor.feature_maps import MAPS, check_features, check_order, choose_map
from porism.layers.attention.taylor.kernels.step import decodes
from porism.layers.attention.taylor.method import backward_outline, refuse_weights
from porism.layers.attention.taylor.state import TaylorState
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_whole, recordable
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    register,
    watch_of,
)


class Hybrid(Method):
    """Softmax within a window and its series beyond: linear in the length."""

    name = "hybrid"
    exact = False

    def serves(self, sizes: RequestSizes) -> bool:
        allowed = sizes.order is not None and sizes.window_size is not None
        return allowed and sizes.pattern.kind in ("full", "causal") and not sizes.dropout and not sizes.attn_mask

    def kind(self, sizes: RequestSizes) -> str:
        return self.name if sizes.pattern.kind == "full" else f"causal {self.name}"

    def check(self, request: AttentionRequest) -> None:
        refuse_weights("hybrid", request.dropout_p, request.attn_mask is not None)
        order = _order(request)
        check_settings(request.window_size, order, request.pattern)
        check_features(choose_map(None, order), order, request.q.shape[3], layer="hybrid")

    def attend(self, request: AttentionRequest) -> Tensor:
        if request.cu_seqlens is None:
            return _attend(request, _settings_of(request))[0]
        batch, pack = request.padded()
        return pack(_attend(batch, _settings_of(batch))[0])

    def decode(self, request: AttentionRequest, state: HybridState | None) -> tuple[Tensor, HybridState]:
        k, v, settings = request.k, request.v, _settings_of(request, return_state=True)
        tokens, first = KVCache(k, v, request.key_padding_mask), None
        chosen = choose_map(None, settings.order)
        if state is not None:
            _check_state(state, k, v, settings)
            tokens, first = tokens.after(state.near, layer="hybrid"), recordable(state.far.joined())
        near = tokens.last(settings.window - 1)
        if first is not None and decodes(request.q, tokens.k, tokens.v, first):
            with without_autocast(k):
                answer, last = step.decode(settings, request.q, tokens.k, tokens.v, tokens.padding, first)
            return answer, HybridState(near, TaylorState.split(last, settings.order, chosen), settings.window)
        # Positions count from the first key of the state.
        settings = settings._replace(offset=tokens.length - k.shape[2])
        whole = replace(request, k=tokens.k, v=tokens.v, key_padding_mask=tokens.padding)
        answer, last = _attend(whole, settings, None if first is None else first.flatten(0, 1))
        far = TaylorState.split(last.unflatten(0, k.shape[:2]), settings.order, chosen)
        return answer, HybridState(near, far, settings.window)

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.hybrid.cost import work

        return work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        pattern = FULL if kind == self.name else CAUSAL
        windows = zip(linear_trials(device), cycle((24, 48, 96)), strict=False)
        return [trial(*some, device, pattern, window_size=W, narrow=True) for some, W in windows]


HYBRID = Hybrid()


def check_settings(window_size: int | None, order: int, pattern: Pattern, allow_odd: bool = True) -> None:
    """Refuses what the layer cannot be built for."""
    if window_size is None:
        raise ShapeError("hybrid: window_size is None. Give window_size=64 or so: the keys that stay exact.")
    check_whole("hybrid", "window_size", window_size)
    check_order(order, allow_odd, layer="hybrid")
    if not isinstance(pattern, Pattern):
        raise ShapeError(f"hybrid: the pattern is {pattern!r}, expected a Pattern, such as Pattern('causal').")
    if pattern.kind not in ("full", "causal"):
        raise ShapeError(
            f"hybrid: the pattern is {pattern.kind}, expected full or causal: near keys are those in the window, "
            "and all others are far. Use WindowAttention for windows alone, or TaylorAttention for block-causal."
        )


def _order(request: AttentionRequest) -> int:
    return ORDER if request.order is None else request.order


def _settings_of(request: AttentionRequest, return_state: bool = False) -> HybridSettings:
    assert request.window_size is not None
    causal = request.pattern.kind == "causal"
    return HybridSettings(request.window_size, _order(request), causal, request.scale, request.offset, return_state)


def _check_state(state: HybridState, k: Tensor, v: Tensor, settings: HybridSettings) -> None:
    if not isinstance(state, HybridState):
        raise ShapeError(
            f"hybrid: the state is a {type(state).__name__}, expected the HybridState that the same layer gave."
        )
    state.check(k, v, settings.window, settings.order)


def _attend(request: AttentionRequest, settings: HybridSettings, first: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The answer and the last state (N, M, H+1)."""
    with without_autocast(request.q):
        return hybrid(request.q, request.k, request.v, request.key_padding_mask, first, settings)


def hybrid(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, settings: HybridSettings
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    answer, _, _, last = call(OPERATOR, HybridFunction, q, k, v, key_padding, first, *settings)
    return answer, last


class HybridFunction(Function):
    """`porism::hybrid` with the backward pass by hand: kept are the operands, the answer and two numbers a query."""

    is_batched = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        answer, totals, peaks, _ = output
        ctx.settings, ctx.watch = inputs[5:], watch_of(answer)
        ctx.save_for_backward(*inputs[:5], answer if ctx.watch is None else answer.data, totals, peaks)
        ctx.mark_non_differentiable(totals, peaks)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dO: Tensor | None, _: None, __: None, dlast: Tensor | None) -> tuple[Tensor | None, ...]:
        *operands, answer, totals, peaks = ctx.saved_tensors
        dO = torch.zeros_like(answer) if dO is None else dO
        with without_autocast(dO):
            if ctx.watch is not None and ctx.watch.changed:
                answer, *_ = HybridFunction.forward(*operands, *ctx.settings)
            args = dO, dlast, *operands, answer, totals, peaks, *ctx.settings
            dq, dk, dv, dfirst = call_backward(HybridBackward, *args)
        return dq, dk, dv, None, None if operands[4] is None else dfirst, *(None,) * len(ctx.settings)


class HybridBackward(BackwardFunction):
    """`porism::hybrid_backward`."""

    is_batched = True


def _forward(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, *settings: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (answer, totals, peaks), last = forward(HybridSettings(*settings), q, k, v, key_padding, first)
    # No view, so that autograd lets users change it in place.
    return answer.data, totals, peaks, last


def _forward_on_device(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, *flat: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    settings = HybridSettings(*flat)
    if not kernels.serves(settings, q, k, v, first):
        return _forward(q, k, v, key_padding, first, *flat)
    answer, totals, peaks = kernels.forward(settings, q, k, v, key_padding)
    return answer.data, totals, peaks, totals.new_empty(0)


def _backward(dO: Tensor, dlast: Tensor | None, *rest: Any) -> HybridGradient:
    q, k, v, key_padding, first, *passed = rest[:8]
    return gradient(HybridSettings(*rest[8:]), dO, dlast, q, k, v, key_padding, first, Passed(*passed))


def _backward_on_device(dO: Tensor, dlast: Tensor | None, *rest: Any) -> HybridGradient:
    q, k, v, key_padding, first, *passed = rest[:8]
    settings = HybridSettings(*rest[8:])
    if not kernels.serves(settings, q, k, v, first):
        return _backward(dO, dlast, *rest)
    return kernels.backward(settings, dO, q, k, v, key_padding, Passed(*passed))


def _outline(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Any, first: Any, *flat: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, A, T, D), G, H, settings = q.shape, k.shape[1], v.shape[3], HybridSettings(*flat)
    exact = torch.promote_types(q.dtype, torch.float32)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    totals, peaks = (q.new_empty(B, A, T, 1, dtype=exact) for _ in range(2))
    features = MAPS[choose_map(None, settings.order)].size(settings.order, D)
    state = (B * G, features, H + 1) if settings.return_state else (0,)
    return answer, totals, peaks, q.new_empty(state, dtype=exact)


def _flops(q: Any, k: Any, v: Any, key_padding: Any, first: Any, *settings: Any, **_: Any) -> int:
    return sum(products(HybridSettings(*settings), q, k, v, first is not None))


def _backward_flops(dO: Any, dlast: Any, q: Any, k: Any, v: Any, *rest: Any, **_: Any) -> int:
    return products(HybridSettings(*rest[5:]), q, k, v, rest[1] is not None).backward()


_OPERANDS = "Tensor q, Tensor k, Tensor v, Tensor? key_padding, Tensor? first"
_SETTINGS = "int window, int order, bool causal, float scale, int offset, bool return_state"

OPERATOR = register(
    f"hybrid({_OPERANDS}, {_SETTINGS}) -> (Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _outline,
    _flops,
    _forward_on_device,
)
BACKWARD_OPERATOR = register(
    f"hybrid_backward(Tensor dO, Tensor? dlast, {_OPERANDS}, Tensor answer, Tensor totals, Tensor peaks, "
    f"{_SETTINGS}) -> (Tensor, Tensor, Tensor, Tensor)",
    _backward,
    backward_outline,
    _backward_flops,
    _backward_on_device,
)
differentiate(HybridFunction, OPERATOR)
differentiate(HybridBackward, BACKWARD_OPERATOR)
