"""Softmax attention within a window, at a cost that grows with the length and not with its square: the functions."""

from collections.abc import Sequence

from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.window.method import WINDOW, check_pattern, refuse_mask, windowed


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
    - `is_causal`: refused with a pattern that attends ahead
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
