"""Softmax attention over any pattern: the functions."""

from collections.abc import Sequence

from torch import Tensor

from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.softmax.method import SOFTMAX


def softmax_attention(
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
) -> Tensor:
    """softmax(scale q k^T) v over the keys that each query attends to, called as scaled_dot_product_attention is.

    >>> q, k, v = torch.randn(2, 8, 10, 64), torch.randn(2, 2, 10, 64), torch.randn(2, 2, 10, 32)
    >>> softmax_attention(q, k, v, is_causal=True).shape                # 8 query heads share 2 key heads
    torch.Size([2, 8, 10, 32])

    Full and causal patterns run in the fused kernel without any mask; others build a dense one, T S of memory, where
    `porism.layers.window_attention` needs T W. A query that attends to no key gives 0.

    - `attn_mask`: fit for (B, A, T, S), True for a pair that attends, or numbers to add to the logits
    - `dropout_p`: the probability of dropping a weight
    - `is_causal`: makes a full pattern causal, from the top left; refused with a pattern that attends ahead
    - `enable_gqa=False` refuses fewer key heads than query heads
    - `pattern`: which keys a query attends to by their positions; all of them by default
    - `key_padding_mask`: (B, S), True (or -inf) for a key that is only padding
    - `cu_seqlens`: where packed sequences start in a batch of 1, and the end
    - `offset`: the position of the first query

    As with torch's scaled_dot_product_attention, an answer that was changed in place is refused by backward().

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
        pattern=pattern,
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
    )
    return SOFTMAX.attend(request)


def softmax_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: KVCache | None = None,
    *,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, KVCache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the longer cache.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 64)                      # three times B A T D
    >>> y, cache = softmax_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, cache = softmax_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], cache)
    >>> cache.k.shape
    torch.Size([2, 8, 10, 64])

    `key_padding_mask` is that of the new tokens, (B, T). The cache is a copy of the keys and values, and gradients flow
    through it. It belongs to the pattern, the batch and the dtype that it was made with. Without a gradient, on a CPU,
    a new token costs no copy of those before it: see `KVCache`.
    """
    request = AttentionRequest.make(
        query, key, value, scale=scale, pattern=pattern, key_padding_mask=key_padding_mask, decoding=True
    )
    return SOFTMAX.decode(request, state)
