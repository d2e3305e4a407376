"""Attention that is softmax within a window and its series beyond: the functions."""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.hybrid.method import HYBRID
from porism.layers.attention.hybrid.state import HybridState
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.taylor.feature_maps import check_order


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
