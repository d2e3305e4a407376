"""Attention by the series of the exponential: the method and its operator."""

from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.method import ORDER, Method, linear_trials, trial
from porism.layers.attention.pattern import CAUSAL, FULL, Kind, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.taylor.feature_maps import MAPS, check_features, choose_map
from porism.layers.attention.taylor.gradient import SeriesGradient, gradient
from porism.layers.attention.taylor.kernels import cpu, step
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings
from porism.layers.attention.taylor.kernels.spans import check_pattern
from porism.layers.attention.taylor.state import ChunkedTaylorState, TaylorState, check_state, plain_state
from porism.layers.autocast import without_autocast
from porism.layers.operands import recordable
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    register,
    watch_of,
)


class Taylor(Method):
    """The series of the exponential, by sums over features of keys: linear in the length."""

    name = "taylor"
    exact = False

    def serves(self, sizes: RequestSizes) -> bool:
        return serves_series(sizes)

    def kind(self, sizes: RequestSizes) -> str:
        return self.name if sizes.pattern.kind == "full" else f"causal {self.name}"

    def check(self, request: AttentionRequest) -> None:
        refuse_window(self, request)
        check_request(request)

    def attend(self, request: AttentionRequest) -> Tensor:
        if request.cu_seqlens is None:
            return attend(request)[0]
        batch, pack = request.padded()
        return pack(attend(batch)[0])

    def decode(
        self, request: AttentionRequest, state: TaylorState | ChunkedTaylorState | None
    ) -> tuple[Tensor, TaylorState | ChunkedTaylorState]:
        settings = _settings_of(request, return_state=True)
        if state is not None:
            check_state(state, request.k, request.v, settings.order, settings.map)
        if isinstance(state, ChunkedTaylorState):
            return self._decode_in_chunks(request, settings, state)
        return self._decode(request, settings, state)

    def _decode(
        self, request: AttentionRequest, settings: SeriesSettings, state: TaylorState | None
    ) -> tuple[Tensor, TaylorState]:
        q, k, v = request.q, request.k, request.v
        log_decay = request.log_decay
        if state is not None and kernels.decodes(settings, q, k, v, log_decay, state.sums, state.weights):
            passed = settings, q, k, v, request.key_padding_mask, log_decay, state.sums, state.weights
            answer, sums, weights = kernels.decode(*passed)
            return answer, TaylorState(sums, weights, settings.order, settings.map)
        if state is not None and step.decodes(q, k, v, state.sums, state.weights, log_decay):
            with without_autocast(q):
                answer, joined = step.decode(settings, q, k, v, request.key_padding_mask, log_decay, state.joined())
            return answer, TaylorState.split(joined, settings.order, settings.map)
        answer, last = attend(request, state, output_final_state=True)
        assert last is not None
        return answer, last

    def _decode_in_chunks(
        self, request: AttentionRequest, settings: SeriesSettings, state: ChunkedTaylorState
    ) -> tuple[Tensor, ChunkedTaylorState]:
        """A token beside the sums, and the last of a chunk into them; into the sums at once what is no such token."""
        if (found := _in_chunk(request, settings, state)) is not None:
            return found
        answer, last = self._decode(request, settings, state.plain())
        return answer, last.in_chunks(state.size)

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.taylor.cost import work

        return work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        pattern = FULL if kind == self.name else CAUSAL
        return [trial(*some, device, pattern, narrow=True) for some in linear_trials(device)]


TAYLOR = Taylor()


def serves_series(sizes: RequestSizes) -> bool:
    """Whether the series may stand in for the exponential everywhere, and knows the pattern."""
    allowed = sizes.order is not None and sizes.window_size is None and not sizes.dropout and not sizes.attn_mask
    return allowed and sizes.pattern.kind in ("full", "causal", "block-causal")


def check_request(request: AttentionRequest, layer: str = "taylor") -> None:
    """Refuses what the series cannot do."""
    refuse_weights(layer, request.dropout_p, request.attn_mask is not None)
    check_pattern(request.pattern)
    order = order_of(request)
    check_features(choose_map(request.feature_map, order), order, request.k.shape[3])


def refuse_weights(layer: str, dropout: float, has_mask: bool = False, name: str = "dropout_p") -> None:
    """Refuses what would need single weights."""
    if dropout:
        raise ShapeError(
            f"{layer}: {name} is {dropout}, and the series has no single weights to drop: they live in sums. "
            "Set it to 0, or drop from the answer."
        )
    if has_mask:
        raise ShapeError(
            f"{layer}: attn_mask came, and the series never holds all pairs. Leave it out, or take softmax_attention."
        )


def refuse_window(method: Method, request: AttentionRequest) -> None:
    if request.window_size is not None:
        method.refuse("a window_size", "Give it to the pattern, or take 'hybrid'.")


def order_of(request: AttentionRequest) -> int:
    return ORDER if request.order is None else request.order


def _settings_of(request: AttentionRequest, return_state: bool = False) -> SeriesSettings:
    order = order_of(request)
    chosen = choose_map(request.feature_map, order)
    return SeriesSettings(chosen, order, request.pattern, request.scale, request.offset, return_state)


def attend(
    request: AttentionRequest,
    state: TaylorState | ChunkedTaylorState | None = None,
    output_final_state: bool = False,
) -> tuple[Tensor, TaylorState | None]:
    """The answer, and the last state where it is requested."""
    q, k, v, settings = request.q, request.k, request.v, _settings_of(request, output_final_state)
    first = None
    if state is not None:
        first = recordable(plain_state(state, k, v, settings.order, settings.map).joined()).flatten(0, 1)
    with without_autocast(q):
        answer, last = series(q, k, v, request.key_padding_mask, request.log_decay, first, settings)
    if not output_final_state:
        return answer, None
    return answer, TaylorState.split(last.unflatten(0, k.shape[:2]), settings.order, settings.map)


def _in_chunk(
    request: AttentionRequest, settings: SeriesSettings, state: ChunkedTaylorState
) -> tuple[Tensor, ChunkedTaylorState] | None:
    """The answer of one token of a chunk, and the state after it; None for what has to go into the sums at once."""
    q, k, v, (before, keys, values, size) = request.q, request.k, request.v, state
    if request.key_padding_mask is not None or request.log_decay is not None or before.sums.requires_grad:
        return None
    before = before._replace(order=settings.order, feature_map=settings.map)
    chunk = None if keys is None or values is None else (keys, values)
    if kernels.decodes(settings, q, k, v, None, before.sums, before.weights):
        token = q, k, v, before.sums, before.weights
        answer, (sums, weights), chunk = kernels.decode_in_chunk(settings, *token, chunk, size)
        keys, values = chunk or (None, None)
        return answer, ChunkedTaylorState(before._replace(sums=sums, weights=weights), keys, values, size)
    if step.decodes(q, k, v, before.sums, before.weights, keys, values):
        # Copies, of the first token too: nobody who changes it later changes the state, and it is no part of a graph.
        keys, values = (torch.cat(parts, 2) for parts in zip(*([] if chunk is None else [chunk]), (k, v), strict=True))
        with without_autocast(q):
            answer = step.decode_in_chunk(settings, q, k, v, before.joined(), keys, values)
        after = ChunkedTaylorState(before, keys, values, size)
        return answer, after.folded().in_chunks(size) if after.length >= size else after
    return None


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
