"""Ways that hold all weights at once: on short texts plain products are fast, and so is the series pair by pair."""

import torch
from torch import Tensor

from porism.layers.attention.masks import dense_mask
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.attention.softmax.functional import all_weights
from porism.layers.attention.taylor.feature_maps import check_order, exponential
from porism.layers.attention.taylor.kernels.spans import check_pattern
from porism.layers.autocast import without_autocast


def dense_softmax(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """`softmax_attention` by plain products, in float32 or better. Time and memory grow with T S.

    Keys and values of two widths cost what they cost, where the fused kernels need both at the wider one.
    """
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, offset=offset
    )
    return softmax_of_all(q, k, v, pattern, number, key_padding, offset)


def softmax_of_all(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, key_padding: Tensor | None, offset: int
) -> Tensor:
    """`dense_softmax` of operands that an `AttentionRequest` has checked."""
    limits = dense_mask(q, k, pattern, offset, key_padding, None)
    with without_autocast(q):
        weights = all_weights(q, k, limits, scale)
        return (weights @ share(v, q.shape[1]).to(weights.dtype)).to(q.dtype)


def dense_taylor(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """`taylor_attention` pair by pair, without features, in float32 or better. Time and memory grow with T S."""
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, offset=offset
    )
    return series_of_all(q, k, v, order, pattern, number, key_padding, offset)


def series_of_all(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: int,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None,
    offset: int,
) -> Tensor:
    """`dense_taylor` of operands that an `AttentionRequest` has checked."""
    check_order(order, allow_odd=False)
    check_pattern(pattern)
    with without_autocast(q):
        queries, keys, values = _exact(q, k, v)
        weights = exponential((scale * queries) @ share(keys, q.shape[1]).mT, order)
        limits = dense_mask(q, k, pattern, offset, key_padding, None)
        if limits is None:
            # Of an even order no weight is 0, so that only without keys there is nothing to divide by.
            total = weights.sum(-1, keepdim=True) if k.shape[2] > 0 else 1.0
            return (weights @ share(values, q.shape[1]) / total).to(q.dtype)
        weights = weights * limits.pairs
        # A query that looks at no key has weights for all of them here, and a sum that is not 0.
        answer = weights @ share(values, q.shape[1]) / weights.sum(-1, keepdim=True)
        return answer.masked_fill(limits.blind, 0).to(q.dtype)


def _exact(*tensors: Tensor) -> list[Tensor]:
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors]
