"""Softmax attention within a window, at a cost that grows with the length and not with its square."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.cache import Cache
from porism.layers.attention.layer import softmax_attention, softmax_decode
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.heads import Heads
from porism.layers.operands import check, scale_of
from porism.layers.pattern import CAUSAL, FULL, Kind, Pattern
from porism.layers.ragged import pack, starts, unpack
from porism.layers.window.dilation import Interleaved
from porism.layers.window.passes import attend, kernel_in_use

__all__ = ["WindowAttention", "window_attention", "window_decode"]


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> Tensor:
    """softmax(scale q k^T) v over the keys in each query's window.

    >>> q, k, v = torch.randn(3, 1, 8, 16_384, 64)
    >>> window_attention(q, k, v, pattern=Pattern("sliding", window=64)).shape
    torch.Size([1, 8, 16384, 64])

    Time grows with T W and memory with T. The pattern is sliding, with or without a look ahead and a dilation, or
    block, whole or causal inside. Causal and full ones, and windows that reach over the whole text, go the way of
    `softmax_attention`. A query that looks at no key gives 0.

    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `dropout_p`: the probability of dropping a weight; which ones were kept is remembered, a byte for each
    - `offset`: the place of the first query

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    _check(q, k, v, pattern, key_padding, dropout_p)
    T, S = q.shape[2], k.shape[2]
    if cumulative_lengths is not None:
        if key_padding is not None or offset:
            raise ShapeError(
                "attention: cumulative_lengths came with key_padding or an offset. Texts end to end need none."
            )
        if T != S:
            raise ShapeError(
                f"attention: with cumulative lengths each text attends to itself, and {T} queries came with {S} keys. "
                "Pad the texts with key_padding."
            )
        borders = starts(cumulative_lengths, T)
        (q, padding), (k, _), (v, _) = (unpack(x, borders) for x in (q, k, v))
        # Pads come last, so that who never looks ahead never sees one.
        pads = padding if pattern.looks_ahead else None
        return pack(
            window_attention(q, k, v, pattern=pattern, scale=scale, key_padding=pads, dropout_p=dropout_p), borders
        )
    apart = Interleaved(pattern, T, S, offset) if pattern.dilation > 1 and T > 0 else None
    if apart is not None:
        key_padding = apart.padding(key_padding, k)
        q, k, v, pattern, offset = apart.queries(q), apart.keys(k), apart.keys(v), apart.pattern, apart.offset
    answer = _near(q, k, v, pattern, scale, key_padding, dropout_p, offset)
    return answer if apart is None else apart.join_queries(answer)


def _near(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float | None,
    key_padding: Tensor | None,
    dropout_p: float,
    offset: int,
) -> Tensor:
    """A pattern without dilation."""
    pattern = narrowed(pattern, q.shape[2], k.shape[2], offset)
    if pattern.window is None:
        return softmax_attention(
            q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, dropout_p=dropout_p, offset=offset
        )
    chosen = autocast_dtype(q)
    q, k, v = (q, k, v) if chosen is None else (x.to(chosen) for x in (q, k, v))
    with without_autocast(q):
        return attend(q, k, v, pattern, scale_of(q, scale), key_padding, offset, keep=1 - dropout_p)


def narrowed(pattern: Pattern, T: int, S: int, offset: int = 0) -> Pattern:
    """A pattern without dilation that shows the same pairs of T queries and S keys, its window no longer than needed.

    >>> narrowed(Pattern("sliding", window=5, ahead=9), T=7, S=7)
    Pattern(kind='sliding', window=5, ahead=6, dilation=1, causal_inside=False)
    >>> narrowed(Pattern("sliding", window=9), T=7, S=7)
    Pattern(kind='causal', window=None, ahead=0, dilation=1, causal_inside=False)
    """
    if pattern.window is None:
        return pattern
    places = max(1, offset + T)
    if pattern.kind == "block":
        one = CAUSAL if pattern.causal_inside else FULL
        return one if pattern.window >= max(places, S) else pattern
    window, ahead = min(pattern.window, places), min(pattern.ahead, max(0, S - 1 - offset))
    if window == places and ahead == 0:
        return CAUSAL
    if window == places and offset + ahead >= S - 1:
        return FULL
    return replace(pattern, window=window, ahead=ahead)


def window_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Cache | None = None,
    *,
    pattern: Pattern,
    scale: float | None = None,
    key_padding: Tensor | None = None,
) -> tuple[Tensor, Cache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the state after them.

    >>> q, k, v = torch.randn(3, 2, 8, 100, 64)                     # three times B A T D
    >>> near = Pattern("sliding", window=16)
    >>> y, state = window_decode(q[:, :, :99], k[:, :, :99], v[:, :, :99], pattern=near)
    >>> y, state = window_decode(q[:, :, 99:], k[:, :, 99:], v[:, :, 99:], state, pattern=near)
    >>> state.k.shape
    torch.Size([2, 8, 15, 64])

    The state holds the keys and values that the next token may look at and no others, so that a token costs the same
    wherever it stands. `key_padding` is that of the new tokens, (B, T).
    """
    _check(q, k, v, pattern, key_padding)
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"attention: decoding takes a key for each new token, got {q.shape[2]} queries and {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )
    if pattern.looks_ahead:
        raise ShapeError(
            f"attention: this {pattern.kind} pattern looks at tokens that are not there yet, so it cannot be decoded. "
            "Choose causal, sliding without ahead, or block with causal_inside."
        )
    if pattern.window is None:
        return softmax_decode(q, k, v, state, pattern=pattern, scale=scale, key_padding=key_padding)
    tokens = Cache(k, v, key_padding).behind(state)
    before = tokens.length - k.shape[2]
    # Places count from the first token of the state. It opens a block where there are blocks, so that all fall right.
    answer = window_attention(
        q, tokens.k, tokens.v, pattern=pattern, scale=scale, key_padding=tokens.padding, offset=before
    )
    return answer, tokens.last(_reach(pattern, tokens.length))


def _reach(pattern: Pattern, S: int) -> int:
    """How many of S tokens so far the next one may look at."""
    assert pattern.window is not None
    return S % pattern.window if pattern.kind == "block" else (pattern.window - 1) * pattern.dilation


class WindowAttention(Heads):
    """Multi-head softmax attention within a window.

    o = concat over heads of softmax(q_a k_a^T / sqrt(D)) v_a over the keys in the window, times W_O

    >>> layer = WindowAttention(512, 8, window=64, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D
    >>> print(layer.pattern.drawn(4))
    ■ · · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■

    A token sees the `window` tokens up to and including itself and `ahead` after it, or every d-th of them with a
    `dilation` d. With kind="block" it sees those of its own block of `window`, with `causal_inside` up to itself.
    `is_causal` takes away what lies ahead. `Heads` tells the other options. The state of `decode` is a `Cache` that
    never holds more than a window.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window: int,
        *,
        kind: Kind = "sliding",
        ahead: int = 0,
        dilation: int = 1,
        causal_inside: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(embed_dim, num_heads, **options)
        self.pattern = Pattern(kind, window, ahead, dilation, causal_inside)
        _check_kind(self.pattern)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        key_padding: Tensor | None,
        cumulative_lengths: Sequence[int] | Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        return window_attention(
            q,
            k,
            v,
            pattern=_behind(self.pattern) if is_causal else self.pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            dropout_p=self.dropout if self.training else 0.0,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        return window_decode(q, k, v, state, pattern=self.pattern, scale=self.scale)

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.value_dim)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}"


def _behind(pattern: Pattern) -> Pattern:
    """The pattern less what it shows ahead."""
    return replace(pattern, causal_inside=True) if pattern.kind == "block" else replace(pattern, ahead=0)


def _check(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, key_padding: Tensor | None, dropout_p: float = 0.0
) -> None:
    check(q, k, v, key_padding)
    if not 0 <= dropout_p < 1:
        raise ShapeError(f"attention: dropout_p is {dropout_p!r}. Give the probability of dropping, from 0 to below 1.")
    _check_kind(pattern)


def _check_kind(pattern: Pattern) -> None:
    if pattern.kind == "block-causal":
        raise ShapeError(
            "attention: a block-causal pattern looks at all blocks before, not at a window. "
            "Take softmax_attention, or a block pattern with causal_inside."
        )
