"""The oracle: every pair of query and key written out, and those outside of the window left out. Clear and slow."""

from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax.naive import looked_at, softmax_attention


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float | None = None,
    key_padding_mask: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """softmax(scale q k^T) v over the keys that the pattern shows: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H)."""
    return softmax_attention(q, k, v, looked_at(pattern, q, k, key_padding_mask, offset), scale)
