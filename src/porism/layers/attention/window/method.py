"""Softmax attention within a window, at a cost that grows with the length: the method and its operator."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.errors import ShapeError
from porism.layers.attention.method import Method, trial
from porism.layers.attention.pattern import Kind, Pattern
from porism.layers.attention.reach import reach
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.softmax.method import SOFTMAX
from porism.layers.attention.softmax.method import attend as softmax
from porism.layers.attention.window.gradient import WindowGradient, gradient
from porism.layers.attention.window.kernels import cpu
from porism.layers.attention.window.kernels.blocks import Cut, Interleaved, blocks_of
from porism.layers.autocast import without_autocast
from porism.layers.kernels import available, run_on
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    register,
    watch_of,
)

WIDEST = 256
"""The widest queries, keys and values for which there is a Triton kernel."""

TRIALS = (
    (2, 48, 24, 12),
    (8, 48, 56, 24),
    (2, 112, 56, 48),
    (32, 80, 56, 24),
    (6, 208, 24, 24),
    (4, 416, 56, 12),
    (6, 416, 24, 96),
    (2, 832, 56, 192),
    (2, 832, 24, 48),
    (4, 1664, 56, 48),
    (2, 1664, 24, 384),
)
"""Heads, length, width and window to time."""


class Window(Method):
    """Softmax over the pairs in a window alone."""

    name = "window"
    exact = True

    def serves(self, sizes: RequestSizes) -> bool:
        return sizes.pattern.kind in ("sliding", "block") and not sizes.attn_mask

    def kind(self, sizes: RequestSizes) -> str:
        return self.name if sizes.pattern.kind == "sliding" else "window in blocks"

    def check(self, request: AttentionRequest) -> None:
        if request.pattern.kind not in ("sliding", "block"):
            raise ShapeError(
                f"attention: mechanism 'window' came with a {request.pattern.kind} pattern, which has no window. "
                "Give a sliding or a block pattern, or take mechanism 'softmax'."
            )
        refuse_mask(request)

    def attend(self, request: AttentionRequest) -> Tensor:
        if request.cu_seqlens is None:
            return _attend(request)
        batch, pack = request.padded()
        if request.pattern.is_decodable:
            # Pads come last, so that who never attends ahead never attends to one.
            batch = replace(batch, key_padding_mask=None)
        return pack(_attend(batch))

    def decode(self, request: AttentionRequest, state: KVCache | None) -> tuple[Tensor, KVCache]:
        pattern = request.pattern
        if pattern.window_size is None:
            return SOFTMAX.decode(request, state)
        new = KVCache(request.k, request.v, request.key_padding_mask, pattern)
        tokens = new.after(state)
        before = tokens.length - new.length
        # Positions count from the first token of the state. It opens a block where there are blocks, so that all fall
        # right.
        whole = replace(request, k=tokens.k, v=tokens.v, key_padding_mask=tokens.padding, offset=before)
        return _attend(whole), tokens.last(_remembered(pattern, tokens.length))

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.window.cost import work

        return work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        shape: Kind = "sliding" if kind == self.name else "block"
        return [trial(A, T, D, D, device, Pattern(shape, window_size=W)) for A, T, D, W in TRIALS]


WINDOW = Window()


def windowed(window_size: int | None, pattern: Pattern | None) -> Pattern:
    """The pattern that was given by its window alone, or as it is: exactly one of the two."""
    if (window_size is None) == (pattern is None):
        came = "neither" if pattern is None else f"window_size={window_size!r} and {pattern}"
        raise ShapeError(
            f"window: {came} came, expected exactly one of the two: window_size=64 for a sliding window, or a pattern."
        )
    return Pattern("sliding", window_size) if pattern is None else pattern


def check_pattern(pattern: Pattern) -> None:
    if pattern.kind == "block-causal":
        raise ShapeError(
            "attention: a block-causal pattern attends to all blocks before, not to a window. "
            "Take softmax_attention, or a block pattern with is_causal."
        )


def refuse_mask(request: AttentionRequest) -> None:
    if request.attn_mask is not None:
        raise ShapeError(
            "attention: attn_mask came, and window attention never holds all pairs. "
            "Leave it out, or take softmax_attention."
        )


def _attend(request: AttentionRequest) -> Tensor:
    """The queries that attend to any key, and zeros for all others."""
    T = request.q.shape[2]
    near = reach(request.pattern, T if request.q.shape[0] > 0 else 0, request.k.shape[2], request.offset)
    if near.is_whole(T):
        return _near(request, near.pattern, near.offset)
    some = replace(request, q=request.q[:, :, near.first : near.end])
    return pad(_near(some, near.pattern, near.offset), (0, 0, near.first, T - near.end))


def _near(request: AttentionRequest, pattern: Pattern, offset: int) -> Tensor:
    """A pattern that reaches no further than the text."""
    q, k, v = request.q, request.k, request.v
    if pattern.window_size is None:
        return softmax(replace(request, pattern=pattern, offset=offset))
    if pattern.dilation > 1:
        apart = Interleaved(pattern, q.shape[2], k.shape[2], offset)
        texts = replace(
            request,
            q=apart.queries(q),
            k=apart.keys(k),
            v=apart.keys(v),
            pattern=apart.pattern,
            key_padding_mask=apart.padding(request.key_padding_mask, k),
            offset=apart.offset,
        )
        return apart.join_queries(_attend(texts))
    with without_autocast(q):
        return _blocks(q, k, v, pattern, request.scale, request.key_padding_mask, offset, keep=1 - request.dropout_p)


def _remembered(pattern: Pattern, S: int) -> int:
    """How many of S tokens so far the next one may attend to."""
    assert pattern.window_size is not None
    return S % pattern.window_size if pattern.kind == "block" else (pattern.window_size - 1) * pattern.dilation


def kernel_in_use(q: Tensor, H: int) -> str:
    """Which code answers queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return "triton" if available(q) and max(q.shape[-1], H) <= WIDEST else "torch"


def _blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None,
    offset: int,
    keep: float,
) -> Tensor:
    """A sliding (not dilated) or block pattern: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) -> (B, A, T, H).

    A weight is kept with probability `keep`. Which ones are is drawn here, so that the operator is the same every time.
    """
    kept = Cut(q, k, pattern, offset, key_padding).draw(keep) if keep < 1 else None
    settings = pattern.kind, pattern.window_size, pattern.lookahead, pattern.is_causal, scale, offset, keep
    answer: Tensor = call(OPERATOR, WindowFunction, q, k, v, key_padding, kept, *settings)[0]
    return answer


class WindowFunction(Function):
    """`porism::window` with the backward pass by hand: kept are q, k, v, the answer and a number a query.

    Where there is no fused kernel, or one that knows no dropout, q, k, v are kept, and which weights were.
    """

    is_batched = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *operands, kept = inputs[:5]
        answer, logs = output
        ctx.settings, ctx.fused, ctx.watch = inputs[5:], logs.dim() > 1, None
        if ctx.fused:
            ctx.watch = watch_of(answer)
            ctx.save_for_backward(*operands, answer if ctx.watch is None else answer.data, logs)
        else:
            ctx.save_for_backward(*operands, kept)
        ctx.mark_non_differentiable(logs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, dO: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, *saved = ctx.saved_tensors
        none = (None,) * (2 + len(ctx.settings))
        if dO is None:
            return None, None, None, *none
        kept, answer, logs = (None, *saved) if ctx.fused else (*saved, None, None)
        with without_autocast(dO):
            if ctx.watch is not None and ctx.watch.changed:
                answer, _ = WindowFunction.forward(q, k, v, key_padding, kept, *ctx.settings)
            args = dO, q, k, v, key_padding, kept, answer, logs, *ctx.settings
            return *call_backward(WindowBackward, *args), *none


class WindowBackward(BackwardFunction):
    """`porism::window_backward`."""

    is_batched = True


@lru_cache
def _pattern(kind: str, window: int, ahead: int, causal_inside: bool) -> Pattern:
    return Pattern(cast(Kind, kind), window, ahead, is_causal=causal_inside)


def _kernel(q: Tensor, v: Tensor, keep: float) -> str:
    """Which code runs: a kernel of ours on a GPU, torch's fused one on a CPU, or products of matrices."""
    if keep < 1:
        return "products"
    fits = max(q.shape[-1], v.shape[-1]) <= WIDEST and min(q.numel(), v.numel()) > 0
    if fits and run_on(q.device, q.dtype):
        return "triton"
    return "fused" if q.device.type == "cpu" else "products"


def _forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _run("fused" if q.device.type == "cpu" and rest[-1] == 1 else "products", q, k, v, *rest)


def _forward_on_device(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _run(_kernel(q, v, rest[-1]), q, k, v, *rest)


def _run(
    kernel: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    kept: Tensor | None,
    kind: str,
    window: int,
    ahead: int,
    causal_inside: bool,
    scale: float,
    offset: int,
    keep: float,
) -> tuple[Tensor, Tensor]:
    """The answer, and the logarithms of sums of weights that a fused kernel needs on the way back."""
    pattern = _pattern(kind, window, ahead, causal_inside)
    if kernel == "fused":
        answer, logs = cpu.forward(q, k, v, pattern, scale, key_padding, offset)
    elif kernel == "triton":
        from porism.layers.attention.window.kernels import triton

        rows, logs = triton.forward(q, k, v, pattern, scale, key_padding, offset)
        answer = rows.transpose(1, 2)
    else:
        answer = cpu.forward_by_products(q, k, v, pattern, scale, key_padding, offset, kept, keep)
        logs = q.new_empty(0, dtype=torch.promote_types(q.dtype, torch.float32))
    # No view, so that autograd lets users change it in place.
    return answer.data, logs


def _backward(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    kept: Tensor | None,
    answer: Tensor | None,
    logs: Tensor | None,
    *settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    *shape, scale, offset, keep = settings
    pattern = _pattern(*shape)
    if answer is None or logs is None:
        return gradient(dO, q, k, v, pattern, scale, key_padding, offset, kept, keep)
    return cpu.backward(dO, q, k, v, answer, logs, pattern, scale, key_padding, offset)


def _backward_on_device(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    kept: Tensor | None,
    answer: Tensor | None,
    logs: Tensor | None,
    *settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    *shape, scale, offset, keep = settings
    if answer is None or logs is None or _kernel(q, v, keep) != "triton":
        return _backward(dO, q, k, v, key_padding, kept, answer, logs, *settings)
    from porism.layers.attention.window.kernels import triton

    rows = dO.transpose(1, 2), q, k, v, answer.transpose(1, 2)
    return WindowGradient(*triton.backward(*rows, logs, _pattern(*shape), scale, key_padding, offset))


def _outline(q: Tensor, k: Tensor, v: Tensor, key_padding: Any, kept: Any, *settings: Any) -> tuple[Tensor, Tensor]:
    B, A, T, _ = q.shape
    logs = (0,) if _kernel(q, v, settings[-1]) == "products" else (B, A, T)
    answer = q.new_empty(B, T, A, v.shape[-1]).transpose(1, 2)
    return answer, q.new_empty(logs, dtype=torch.promote_types(q.dtype, torch.float32))


def _backward_outline(dO: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _flops(q: Any, k: Any, v: Any, key_padding: Any, kept: Any, *settings: Any, **_: Any) -> int:
    """Scores and values: two operations for each pair and column."""
    return _pairs(q, k, *settings) * (_width(q, v, settings[-1]) + _width(v, q, settings[-1]))


def _backward_flops(dO: Any, q: Any, k: Any, v: Any, key_padding: Any, kept: Any, *rest: Any, **_: Any) -> int:
    """Scores again, dQ and dK; dP and dV."""
    settings = rest[2:]
    return _pairs(q, k, *settings) * (3 * _width(q, v, settings[-1]) + 2 * _width(v, q, settings[-1]))


def _pairs(q: Any, k: Any, *settings: Any) -> int:
    *shape, _, offset, _ = settings
    blocks = blocks_of(_pattern(*shape), q[2], k[2], offset)
    return int(2 * q[0] * q[1] * sum(block.count * block.rows * block.span for block in blocks))


def _width(own: Any, other: Any, keep: float) -> int:
    """The fused kernel takes queries, keys and values of one width."""
    return int(own[3] if keep < 1 else max(own[3], other[3]))


_OPERANDS = "Tensor q, Tensor k, Tensor v, Tensor? key_padding, Tensor? kept"
_SETTINGS = "str kind, int window, int ahead, bool causal_inside, float scale, int offset, float keep"

OPERATOR = register(
    f"window({_OPERANDS}, {_SETTINGS}) -> (Tensor, Tensor)", _forward, _outline, _flops, _forward_on_device
)
BACKWARD_OPERATOR = register(
    f"window_backward(Tensor dO, {_OPERANDS}, Tensor? answer, Tensor? logs, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
    _backward,
    _backward_outline,
    _backward_flops,
    _backward_on_device,
)
differentiate(WindowFunction, OPERATOR)
differentiate(WindowBackward, BACKWARD_OPERATOR)
