"""Attention that is softmax within a window and its series beyond, its state and its method."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.hybrid.gradient import Gradient, gradient
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.hybrid.kernels.cpu import Passed, forward
from porism.layers.attention.hybrid.kernels.spans import Sights, Task
from porism.layers.attention.method import ORDER, Method, linear_trials, trial
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax.functional import KVCache
from porism.layers.attention.taylor.feature_maps import (
    MAPS,
    FeatureMap,
    check_features,
    check_order,
    choose_map,
    feature_map,
)
from porism.layers.attention.taylor.functional import TaylorState, refuse_weights
from porism.layers.attention.taylor.kernels.cpu import Division, Operands
from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only
from porism.layers.operands import check_whole


class HybridState(NamedTuple):
    """The last W - 1 tokens, fewer early in a text, and the series' sums over those before them.

    `window_size` is W. A state that names none is taken for one of the layer that it is given to.
    """

    near: KVCache
    far: TaylorState
    window_size: int | None = None

    def reorder_cache(self, beam_idx: Tensor) -> "HybridState":
        """The states of the chosen texts of the batch, in the order of the indices (N,)."""
        return HybridState(self.near.reorder_cache(beam_idx), self.far.reorder_cache(beam_idx), self.window_size)

    def check(self, k: Tensor, v: Tensor, window_size: int, order: int) -> None:
        """Refuses the state of another layer; whether the near tokens fit to the new ones they say themselves."""
        if self.window_size not in (None, window_size):
            raise ShapeError(
                f"hybrid: the state is of window_size {self.window_size}, and window_size is {window_size}. "
                "Pass the state that the same layer gave."
            )
        if self.near.length >= window_size:
            raise ShapeError(
                f"hybrid: the state has {self.near.length} near tokens, and window_size {window_size} keeps up to "
                f"{window_size - 1}. Pass the state that the same layer gave."
            )
        self.far.check(k, v, order, choose_map(None, order), layer="hybrid")


@overload
def hybrid_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    *,
    scale: float | Tensor | None = ...,
    enable_gqa: bool = ...,
    pattern: Pattern | None = ...,
    key_padding_mask: Tensor | None = ...,
    cu_seqlens: Sequence[int] | Tensor | None = ...,
    offset: int = ...,
    window_size: int | None = ...,
    order: int = ...,
    allow_odd: bool = ...,
    initial_state: HybridState | None = ...,
    output_final_state: Literal[False] = ...,
) -> Tensor: ...


@overload
def hybrid_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    *,
    scale: float | Tensor | None = ...,
    enable_gqa: bool = ...,
    pattern: Pattern | None = ...,
    key_padding_mask: Tensor | None = ...,
    cu_seqlens: Sequence[int] | Tensor | None = ...,
    offset: int = ...,
    window_size: int | None = ...,
    order: int = ...,
    allow_odd: bool = ...,
    initial_state: HybridState | None = ...,
    output_final_state: Literal[True],
) -> tuple[Tensor, HybridState]: ...


def hybrid_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | Tensor | None = None,
    enable_gqa: bool = True,
    pattern: Pattern | None = None,
    key_padding_mask: Tensor | None = None,
    cu_seqlens: Sequence[int] | Tensor | None = None,
    offset: int = 0,
    window_size: int | None = None,
    order: int = 2,
    allow_odd: bool = False,
    initial_state: HybridState | None = None,
    output_final_state: bool = False,
) -> Tensor | tuple[Tensor, HybridState]:
    """Attention to all keys: with softmax's weight exp(s) where |i - j| < window_size, and with its series beyond.

    >>> q, k, v = torch.randn(2, 8, 1000, 16), torch.randn(2, 2, 1000, 16), torch.randn(2, 2, 1000, 64)
    >>> hybrid_attention(q, k, v, is_causal=True, window_size=64).shape            # 8 query heads share 2 key heads
    torch.Size([2, 8, 1000, 64])

    Both kinds of weight share one denominator, so that this is softmax attention but for the series' error on far keys.
    Time and memory are linear in the length. A query that attends to no key gives 0.

    - `attn_mask`, `dropout_p`: refused, since no single weight of a far key is ever there
    - `pattern`: full or causal; `is_causal` makes a full one causal
    - `key_padding_mask`: (B, S), True (or -inf) for a key that is only padding
    - `cu_seqlens`: where packed sequences start in a batch of 1, and the end
    - `offset`: the position of the first query
    - `window_size`: W, from 1 on; the W keys up to and including a query's own position are near, in a full pattern
      also the W - 1 after it
    - `order`: K, even; an odd one needs `allow_odd`, since its weights can turn negative
    - `initial_state`, `output_final_state`: as `hybrid_decode` takes and gives it, for causal patterns

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_order(order, allow_odd, layer="hybrid")
    has_state = initial_state is not None or output_final_state
    request = AttentionRequest.make(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
        pattern=pattern,
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
        order=order,
        window_size=window_size,
        decoding=has_state,
        layer="hybrid",
    )
    HYBRID.check(request)
    if not has_state:
        return HYBRID.attend(request)
    if cu_seqlens is not None or offset:
        raise ShapeError(
            "hybrid: cu_seqlens or an offset came with a state, which has the positions. "
            "Pad the sequences with key_padding_mask."
        )
    answer, state = HYBRID.decode(request, initial_state)
    return (answer, state) if output_final_state else answer


def hybrid_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: HybridState | None = None,
    *,
    window_size: int | None = None,
    order: int = 2,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    allow_odd: bool = False,
) -> tuple[Tensor, HybridState]:
    """New tokens that continue a text: what the whole text in one causal pass would answer for them, and the state.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 16)                          # three times B A T D
    >>> _, state = hybrid_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9], window_size=4)
    >>> y, state = hybrid_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], state, window_size=4)
    >>> state.near.k.shape, state.far.sums.shape                        # as large after ten tokens as after a million
    (torch.Size([2, 8, 3, 16]), torch.Size([2, 8, 161, 16]))

    Gradients flow through the state too. `key_padding_mask` is that of the new tokens, (B, T).
    """
    check_order(order, allow_odd, layer="hybrid")
    request = AttentionRequest.make(
        query,
        key,
        value,
        scale=scale,
        pattern=pattern,
        key_padding_mask=key_padding_mask,
        order=order,
        window_size=window_size,
        decoding=True,
        layer="hybrid",
    )
    HYBRID.check(request)
    return HYBRID.decode(request, state)


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
        batch, pack = request.padded()
        return pack(_attend(batch, _task(batch))[0])

    def decode(self, request: AttentionRequest, state: HybridState | None) -> tuple[Tensor, HybridState]:
        k, v, task = request.k, request.v, _task(request, return_state=True)
        tokens, first = KVCache(k, v, request.key_padding_mask), None
        if state is not None:
            _check_state(state, k, v, task)
            tokens, first = tokens.after(state.near, layer="hybrid"), state.far.joined().flatten(0, 1)
        # Positions count from the first key of the state.
        task = task._replace(offset=tokens.length - k.shape[2])
        whole = replace(request, k=tokens.k, v=tokens.v, key_padding_mask=tokens.padding)
        answer, last = _attend(whole, task, first)
        far = TaylorState.split(last.unflatten(0, k.shape[:2]), task.order, choose_map(None, task.order))
        return answer, HybridState(tokens.last(task.window - 1), far, task.window)

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
        raise ShapeError(f"hybrid: the pattern is {pattern!r}, wanted a Pattern, such as Pattern('causal').")
    if pattern.kind not in ("full", "causal"):
        raise ShapeError(
            f"hybrid: the pattern is {pattern.kind}, wanted full or causal: near keys are those in the window, and all "
            "others are far. Use WindowAttention for windows alone, or TaylorAttention for block-causal."
        )


def _order(request: AttentionRequest) -> int:
    return ORDER if request.order is None else request.order


def _task(request: AttentionRequest, return_state: bool = False) -> Task:
    assert request.window_size is not None
    causal = request.pattern.kind == "causal"
    return Task(request.window_size, _order(request), causal, request.scale, request.offset, return_state)


def _check_state(state: HybridState, k: Tensor, v: Tensor, task: Task) -> None:
    if not isinstance(state, HybridState):
        raise ShapeError(
            f"hybrid: the state is a {type(state).__name__}, wanted the HybridState that the same layer gave."
        )
    state.check(k, v, task.window, task.order)


def _attend(request: AttentionRequest, task: Task, first: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The answer and the last state (N, M, H+1)."""
    with without_autocast(request.q):
        return hybrid(request.q, request.k, request.v, request.key_padding_mask, first, task)


def features(order: int, D: int) -> int:
    """M, how many features the series has."""
    return MAPS[choose_map(None, order)].size(order, D)


def hybrid(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    if torch.compiler.is_compiling():
        answer, _, _, last = _forward(q, k, v, key_padding, first, *task)
        # The backward pass reads the answer, and users may change theirs. Where nobody does, no copy is compiled.
        return answer.clone(), last
    rows, last = _Hybrid.apply(q, k, v, key_padding, first, task)  # type: ignore[no-untyped-call]
    return rows.transpose(1, 2), last


def pass_forward(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Passed, Tensor]:
    """What was computed, and the last state, which holds nothing unless it was asked for."""
    if kernels.serves(task, q, k, v, first):
        passed = kernels.forward(task, q, k, v, key_padding)
        return passed, passed.totals.new_empty(0)
    operands, phi, sights, division = _prepared(q, k, v, key_padding, first, task)
    state = operands.first_state(phi.count, first)
    passed = forward(operands, phi, task, sights, division, state, resumed=first is not None)
    return passed, state if task.return_state else state.new_empty(0)


def pass_backward(
    dO: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    passed: Passed,
    task: Task,
) -> Gradient:
    if kernels.serves(task, q, k, v, first):
        return kernels.backward(task, dO, q, k, v, key_padding, passed)
    operands, phi, sights, division = _prepared(q, k, v, key_padding, first, task)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if task.return_state else None)
    return gradient(dO, passed, operands, phi, task, sights, division, state, dstate, resumed=first is not None)


def _prepared(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Operands, FeatureMap, Sights, Division]:
    operands = Operands(q, k, v, key_padding, task.scale)
    phi = feature_map(choose_map(None, task.order), task.order, operands.no_columns)
    division = Division(operands, CAUSAL if task.causal else FULL, task.offset, phi.is_positive, first)
    return operands, phi, Sights(task, operands, first), division


class _Hybrid(torch.autograd.Function):
    """The forward pass with the backward pass by hand. Kept are the operands, the answer and two numbers a query.

    The answer goes out as (B, T, A, H), as it lies in memory, and is no view: users may change it in place.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
    ) -> tuple[Tensor, Tensor]:
        passed, last = pass_forward(q, k, v, key_padding, first, task)
        ctx.save_for_backward(q, k, v, key_padding, first, *passed)
        rows = passed.answer.transpose(1, 2).data
        ctx.task, ctx.watch = task, InPlaceWatch(rows) if any(ctx.needs_input_grad) else None
        return rows, last

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, first, *kept = ctx.saved_tensors
        passed = Passed(*kept)
        with without_autocast(dO):
            if ctx.watch.changed:
                passed, _ = pass_forward(q, k, v, key_padding, first, ctx.task)
            d = pass_backward(dO.transpose(1, 2), dlast, q, k, v, key_padding, first, passed, ctx.task)
        return d.q, d.k, d.v, None, None if first is None else d.state.to(first.dtype), None


@torch.library.custom_op("porism::hybrid", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    window: int,
    order: int,
    causal: bool,
    scale: float,
    offset: int,
    return_state: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One operator for the compiler, which would write out the loop over the length otherwise, span by span."""
    task = Task(window, order, causal, scale, offset, return_state)
    passed, last = pass_forward(q, k, v, key_padding, first, task)
    return *passed, last


@torch.library.custom_op("porism::hybrid_backward", mutates_args=())
def _backward(
    dO: Tensor,
    dlast: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
    peaks: Tensor,
    window: int,
    order: int,
    causal: bool,
    scale: float,
    offset: int,
    return_state: bool,
) -> list[Tensor]:
    task = Task(window, order, causal, scale, offset, return_state)
    return list(pass_backward(dO, dlast, q, k, v, key_padding, first, Passed(answer, totals, peaks), task))


@_forward.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Any, first: Any, *settings: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, A, T, D), G, H, task = q.shape, k.shape[1], v.shape[3], Task(*settings)
    exact = torch.promote_types(q.dtype, torch.float32)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    totals, peaks = (q.new_empty(B, A, T, 1, dtype=exact) for _ in range(2))
    state = (B * G, features(task.order, D), H + 1) if task.return_state else (0,)
    return answer, totals, peaks, q.new_empty(state, dtype=exact)


@_backward.register_fake
def _(dO: Tensor, dlast: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> list[Tensor]:
    task = Task(*rest[5:])
    exact = torch.promote_types(q.dtype, torch.float32)
    state = k.shape[0] * k.shape[1], features(task.order, q.shape[3]), v.shape[3] + 1
    return [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), q.new_empty(state, dtype=exact)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:5], *output[:3])
    ctx.settings = inputs[5:]


def _go_back(ctx: Any, dO: Tensor, _dtotals: Tensor, _dpeaks: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
    dq, dk, dv, dstate = _backward(dO, dlast, *ctx.saved_tensors, *ctx.settings)
    first = ctx.saved_tensors[4]
    return dq, dk, dv, None, None if first is None else dstate.to(first.dtype), *(None,) * len(ctx.settings)


_forward.register_autograd(_go_back, setup_context=_keep)
