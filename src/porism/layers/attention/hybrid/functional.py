"""What the hybrid remembers of all tokens so far: the last few as they are, the rest as sums. Its size has a bound."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.hybrid.gradient import Gradient, gradient
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.hybrid.kernels.cpu import Passed, forward
from porism.layers.attention.hybrid.kernels.spans import Sights, Task
from porism.layers.attention.packed import Texts
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.softmax.functional import Cache
from porism.layers.attention.taylor.feature_maps import (
    MAPS,
    FeatureMap,
    check_features,
    check_order,
    choose_map,
    feature_map,
)
from porism.layers.attention.taylor.functional import TaylorState
from porism.layers.attention.taylor.kernels.cpu import Division, Operands
from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only
from porism.layers.operands import check_whole


class HybridState(NamedTuple):
    """The last W - 1 tokens, fewer early in a text, and the series' sums over those before them.

    `window` is W. A state that names none is taken for one of the layer that it is given to.
    """

    near: Cache
    far: TaylorState
    window: int | None = None

    def check(self, k: Tensor, v: Tensor, window: int, order: int) -> None:
        """Refuses the state of another layer; whether the near tokens fit to the new ones they say themselves."""
        if self.window not in (None, window):
            raise ShapeError(
                f"hybrid: the state is of a window of {self.window}, and the window is {window}. "
                "Pass the state that the same layer gave."
            )
        if self.near.length >= window:
            raise ShapeError(
                f"hybrid: the state has {self.near.length} near tokens, and a window of {window} keeps up to "
                f"{window - 1}. Pass the state that the same layer gave."
            )
        self.far.check(k, v, order, choose_map(None, order), layer="hybrid")


def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    allow_odd: bool = False,
) -> Tensor:
    """Attention to all keys: with softmax's weight exp(s) where |i - j| < window, and with its series beyond.

    >>> q, k, v = torch.randn(2, 8, 1000, 16), torch.randn(2, 2, 1000, 16), torch.randn(2, 2, 1000, 64)
    >>> hybrid_attention(q, k, v, window=64, pattern=Pattern("causal")).shape      # 8 query heads share 2 key heads
    torch.Size([2, 8, 1000, 64])

    Both kinds of weight share one denominator, so that this is softmax attention but for the series' error on far keys.
    Time and memory are linear in the length. A query that looks at no key gives 0.

    - `window`: W, from 1 on; the W keys up to and including a query's own place are near, in a full pattern also the
      W - 1 after it
    - `order`: K, even; an odd one needs `allow_odd`, since its weights can turn negative
    - `pattern`: full or causal
    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `offset`: the place of the first query

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_settings(window, order, pattern, dropout_p, allow_odd)
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, offset=offset, layer="hybrid"
    )
    task = _task(window, order, pattern, number, q, offset)
    if cumulative_lengths is None:
        return _attend(q, k, v, key_padding, task)[0]
    texts = Texts(q, k, v, cumulative_lengths, key_padding, offset, layer="hybrid")
    return texts.end_to_end(_attend(*texts.padded, task)[0])


def hybrid_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: HybridState | None = None,
    *,
    window: int,
    order: int = 2,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    allow_odd: bool = False,
) -> tuple[Tensor, HybridState]:
    """New tokens that continue a text: what the whole text in one causal pass would answer for them, and the state.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 16)                          # three times B A T D
    >>> _, state = hybrid_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9], window=4)
    >>> y, state = hybrid_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], state, window=4)
    >>> state.near.k.shape, state.far.sums.shape                        # as large after ten tokens as after a million
    (torch.Size([2, 8, 3, 16]), torch.Size([2, 8, 161, 16]))

    Gradients flow through the state too. `key_padding` is that of the new tokens, (B, T).
    """
    check_settings(window, order, pattern, 0.0, allow_odd)
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, layer="hybrid"
    )
    if pattern.looks_ahead:
        raise ShapeError(
            f"hybrid: a {pattern.kind} pattern looks at tokens that are not there yet, so it cannot be decoded. "
            "Choose causal."
        )
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"hybrid: decoding takes a key for each new token, and {q.shape[2]} queries came with {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )
    task = _task(window, order, pattern, number, q, return_state=True)
    tokens, first = Cache(k, v, key_padding), None
    if state is not None:
        _check_state(state, k, v, task)
        tokens, first = tokens.behind(state.near, layer="hybrid"), state.far.joined().flatten(0, 1)
    # Places count from the first key of the state.
    task = task._replace(offset=tokens.length - k.shape[2])
    answer, last = _attend(q, tokens.k, tokens.v, tokens.padding, task, first)
    far = TaylorState.split(last.unflatten(0, k.shape[:2]), order, choose_map(None, order))
    return answer, HybridState(tokens.last(window - 1), far, window)


def check_settings(window: int, order: int, pattern: Pattern, dropout_p: float, allow_odd: bool) -> None:
    """Refuses what the layer cannot be built for."""
    check_whole("hybrid", "window", window)
    check_order(order, allow_odd, layer="hybrid")
    if not isinstance(pattern, Pattern):
        raise ShapeError(f"hybrid: the pattern is {pattern!r}, wanted a Pattern, such as Pattern('causal').")
    if pattern.kind not in ("full", "causal"):
        raise ShapeError(
            f"hybrid: the pattern is {pattern.kind}, wanted full or causal: near keys are those in the window, and all "
            "others are far. Use WindowAttention for windows alone, or TaylorAttention for block-causal."
        )
    if dropout_p:
        raise ShapeError(
            f"hybrid: dropout_p is {dropout_p}, and far keys have no single weights to drop: they live in sums. "
            "Set it to 0, or drop from the answer."
        )


def _task(
    window: int, order: int, pattern: Pattern, scale: float, q: Tensor, offset: int = 0, return_state: bool = False
) -> Task:
    check_features(choose_map(None, order), order, q.shape[3], layer="hybrid")
    return Task(window, order, pattern.kind == "causal", scale, offset, return_state)


def _check_state(state: HybridState, k: Tensor, v: Tensor, task: Task) -> None:
    if not isinstance(state, HybridState):
        raise ShapeError(
            f"hybrid: the state is a {type(state).__name__}, wanted the HybridState that the same layer gave."
        )
    state.check(k, v, task.window, task.order)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task, first: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The answer and the last state (N, M, H+1)."""
    with without_autocast(q):
        return hybrid(q, k, v, key_padding, first, task)


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
