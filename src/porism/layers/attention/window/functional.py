"""Softmax attention within a window, at a cost that grows with the length and not with its square."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor
from torch.nn.functional import pad

from porism.errors import ShapeError
from porism.layers.attention.packed import pack, starts, unpack
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.reach import reach
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.softmax.functional import Cache, check_decoding
from porism.layers.attention.softmax.functional import attend as softmax
from porism.layers.attention.softmax.functional import decode as softmax_decode
from porism.layers.attention.window.kernels import passes
from porism.layers.attention.window.kernels.blocks import Interleaved
from porism.layers.autocast import without_autocast


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern,
    scale: float | Tensor | None = None,
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
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, dropout_p=dropout_p, offset=offset
    )
    return attend(q, k, v, pattern, number, key_padding, cumulative_lengths, dropout_p, offset)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> Tensor:
    """`window_attention` of operands that an `AttentionRequest` has checked."""
    _check_kind(pattern)
    if cumulative_lengths is None:
        return _attend(q, k, v, pattern, scale, key_padding, dropout_p, offset)
    T, S = q.shape[2], k.shape[2]
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
    return pack(_attend(q, k, v, pattern, scale, pads, dropout_p, 0), borders)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None,
    dropout_p: float,
    offset: int,
) -> Tensor:
    """The queries that look at any key, and zeros for all others."""
    T = q.shape[2]
    near = reach(pattern, T if q.shape[0] > 0 else 0, k.shape[2], offset)
    if near.is_whole(T):
        return _near(q, k, v, near.pattern, scale, key_padding, dropout_p, near.offset)
    seeing = q[:, :, near.first : near.end]
    answer = _near(seeing, k, v, near.pattern, scale, key_padding, dropout_p, near.offset)
    return pad(answer, (0, 0, near.first, T - near.end))


def _near(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None,
    dropout_p: float,
    offset: int,
) -> Tensor:
    """A pattern that reaches no further than the text."""
    if pattern.window is None:
        return softmax(q, k, v, pattern, scale, key_padding, dropout_p=dropout_p, offset=offset, changeable=True)
    if pattern.dilation > 1:
        apart = Interleaved(pattern, q.shape[2], k.shape[2], offset)
        operands = apart.queries(q), apart.keys(k), apart.keys(v)
        padding = apart.padding(key_padding, k)
        return apart.join_queries(_attend(*operands, apart.pattern, scale, padding, dropout_p, apart.offset))
    with without_autocast(q):
        return passes.attend(q, k, v, pattern, scale, key_padding, offset, keep=1 - dropout_p)


def window_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Cache | None = None,
    *,
    pattern: Pattern,
    scale: float | Tensor | None = None,
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
    wherever it stands. It is a copy, gradients flow through it, and it belongs to the pattern, the batch and the dtype
    that it was made with. `key_padding` is that of the new tokens, (B, T).
    """
    q, k, v, number, key_padding = AttentionRequest.make(q, k, v, pattern=pattern, scale=scale, key_padding=key_padding)
    _check_kind(pattern)
    check_decoding(q, k, pattern)
    if pattern.window is None:
        return softmax_decode(q, k, v, state, pattern, number, key_padding)
    tokens = Cache(k, v, key_padding, pattern).behind(state)
    before = tokens.length - k.shape[2]
    # Places count from the first token of the state. It opens a block where there are blocks, so that all fall right.
    answer = _attend(q, tokens.k, tokens.v, pattern, number, tokens.padding, 0.0, before)
    return answer, tokens.last(_remembered(pattern, tokens.length))


def _remembered(pattern: Pattern, S: int) -> int:
    """How many of S tokens so far the next one may look at."""
    assert pattern.window is not None
    return S % pattern.window if pattern.kind == "block" else (pattern.window - 1) * pattern.dilation


def _behind(pattern: Pattern) -> Pattern:
    """The pattern less what it shows ahead."""
    return replace(pattern, causal_inside=True) if pattern.kind == "block" else replace(pattern, ahead=0)


def _check_kind(pattern: Pattern) -> None:
    if pattern.kind == "block-causal":
        raise ShapeError(
            "attention: a block-causal pattern looks at all blocks before, not at a window. "
            "Take softmax_attention, or a block pattern with causal_inside."
        )
