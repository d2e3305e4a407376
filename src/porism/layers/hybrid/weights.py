"""The weight of a pair: exp(s) where the key is near, the series of exp(s) where it is far, 0 where it is not seen."""

import torch
from torch import Tensor

from porism.layers.hybrid.walks import Sight
from porism.layers.taylor.series import exponential


def peaks(s: Tensor, near: Tensor) -> Tensor:
    """m_i = max(0, the largest near logit of query i), (..., 1): taken off every exponent, so that none overflows.

    Far weights grow as a power only. They are multiplied by exp(-m), which is at most 1.
    """
    return s.masked_fill(~near, -torch.inf).amax(-1, keepdim=True).clamp_(min=0)


def weights(s: Tensor, sight: Sight, order: int, peak: Tensor) -> Tensor:
    """w exp(-m) for every pair: (..., queries, keys).

    Both exp and its series are their own slope, but that the series loses an order: the slope of these weights is
    the weights of one order less.
    """
    exact = torch.exp(s.masked_fill(~sight.near, -torch.inf).sub_(peak))
    series = exponential(s, order) * torch.exp(-peak)
    return exact.add_(series.masked_fill(~sight.far, 0))
