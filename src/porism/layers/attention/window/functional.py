"""Softmax attention within a window, at a cost that grows with the length and not with its square."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor
from torch.nn.functional import pad

from porism.errors import ShapeError
from porism.layers.attention.method import Method, trial
from porism.layers.attention.pattern import Kind, Pattern
from porism.layers.attention.reach import reach
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax.functional import SOFTMAX, KVCache
from porism.layers.attention.softmax.functional import attend as softmax
from porism.layers.attention.window.kernels import passes
from porism.layers.attention.window.kernels.blocks import Interleaved
from porism.layers.autocast import without_autocast

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


def window_attention(
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
) -> Tensor:
    """softmax(scale q k^T) v over the keys in each query's window.

    >>> q, k, v = torch.randn(3, 1, 8, 16_384, 64)
    >>> window_attention(q, k, v, window_size=64).shape         # as pattern=Pattern("sliding", window_size=64)
    torch.Size([1, 8, 16384, 64])

    Time grows with T W and memory with T. The pattern is sliding, with or without a lookahead and a dilation, or block,
    whole or causal. Causal and full ones, and windows that reach over the whole text, go the way of
    `softmax_attention`. A query that attends to no key gives 0.

    - `window_size`: of a sliding pattern without lookahead, which counts the token itself; or give a `pattern`
    - `attn_mask`: refused, since pairs outside of the window are never held
    - `is_causal`: refused with a pattern that looks ahead
    - `key_padding_mask`: (B, S), True (or -inf) for a key that is only padding
    - `cu_seqlens`: where packed sequences start in a batch of 1, and the end
    - `dropout_p`: the probability of dropping a weight; which ones were kept is remembered, a byte for each
    - `offset`: the position of the first query

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    request = AttentionRequest.make(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
        pattern=windowed(window_size, pattern),
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
    )
    check_pattern(request.pattern)
    refuse_mask(request)
    return WINDOW.attend(request)


def window_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: KVCache | None = None,
    *,
    window_size: int | None = None,
    pattern: Pattern | None = None,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, KVCache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the state after them.

    >>> q, k, v = torch.randn(3, 2, 8, 100, 64)                     # three times B A T D
    >>> y, state = window_decode(q[:, :, :99], k[:, :, :99], v[:, :, :99], window_size=16)
    >>> y, state = window_decode(q[:, :, 99:], k[:, :, 99:], v[:, :, 99:], state, window_size=16)
    >>> state.k.shape
    torch.Size([2, 8, 15, 64])

    The state holds the keys and values that the next token may attend to and no others, so that a token costs the same
    wherever it stands. It is a copy, gradients flow through it, and it belongs to the pattern, the batch and the dtype
    that it was made with. `key_padding_mask` is that of the new tokens, (B, T).
    """
    chosen = windowed(window_size, pattern)
    request = AttentionRequest.make(
        query, key, value, scale=scale, pattern=chosen, key_padding_mask=key_padding_mask, decoding=True
    )
    check_pattern(chosen)
    return WINDOW.decode(request, state)


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
            # Pads come last, so that who never looks ahead never attends to one.
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
            f"window: {came} came, wanted exactly one of the two: window_size=64 for a sliding window, or a pattern."
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
        return softmax(replace(request, pattern=pattern, offset=offset), changeable=True)
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
        return passes.attend(
            q, k, v, pattern, request.scale, request.key_padding_mask, offset, keep=1 - request.dropout_p
        )


def _remembered(pattern: Pattern, S: int) -> int:
    """How many of S tokens so far the next one may attend to."""
    assert pattern.window_size is not None
    return S % pattern.window_size if pattern.kind == "block" else (pattern.window_size - 1) * pattern.dilation
