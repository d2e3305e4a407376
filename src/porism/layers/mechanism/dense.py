"""Ways that hold all weights at once: on short texts plain products are fast, and so is the series pair by pair."""

import torch
from torch import Tensor

from porism.layers.attention.layer import all_weights
from porism.layers.attention.mask import dense_mask
from porism.layers.autocast import without_autocast
from porism.layers.operands import check, scale_of, share
from porism.layers.pattern import FULL, Pattern
from porism.layers.taylor.series import check_order, exponential
from porism.layers.taylor.spans import check_pattern


def dense_softmax(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """`softmax_attention` by plain products, in float32 or better. Time and memory grow with T S.

    Keys and values of two widths cost what they cost, where the fused kernels need both at the wider one.
    """
    check(q, k, v, key_padding)
    with without_autocast(q):
        queries, keys, values = _exact(q, k, v)
        limits = dense_mask(q, k, pattern, offset, key_padding, None)
        weights = all_weights(queries, keys, limits, scale_of(q, scale))
        return (weights @ share(values, q.shape[1])).to(q.dtype)


def dense_taylor(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """`taylor_attention` pair by pair, without features, in float32 or better. Time and memory grow with T S."""
    check_order(order, allow_odd=False)
    check_pattern(pattern)
    check(q, k, v, key_padding)
    with without_autocast(q):
        queries, keys, values = _exact(q, k, v)
        weights = exponential((scale_of(q, scale) * queries) @ share(keys, q.shape[1]).mT, order)
        limits = dense_mask(q, k, pattern, offset, key_padding, None)
        if limits is None:
            total = weights.sum(-1, keepdim=True)
            return (weights @ share(values, q.shape[1]) / total).to(q.dtype)
        weights = weights * limits.pairs
        # A query that looks at no key has weights for all of them here, and a sum that is not 0.
        answer = weights @ share(values, q.shape[1]) / weights.sum(-1, keepdim=True)
        return answer.masked_fill(limits.blind, 0).to(q.dtype)


def _exact(*tensors: Tensor) -> list[Tensor]:
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors]
