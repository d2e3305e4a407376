"""The weight of a pair: exp(s) where the key is near, the series of exp(s) where it is far, 0 where it is not seen."""

import torch
from torch import Tensor

from porism.layers.hybrid.sight import Sight
from porism.layers.taylor.series import exponential

FAINTEST = -40.0
"""Below it exp(-m) would be a number so large that its products with other numbers overflow."""


def near_logits(s: Tensor, sight: Sight) -> Tensor:
    """The logits (..., queries, keys) of near keys, -inf in place of all others."""
    return s.masked_fill(sight.not_near, -torch.inf)


def peaks(near: Tensor, near_alone: Tensor | slice) -> Tensor:
    """m_i, (..., 1): the largest near logit of query i, and not below 0 unless it sees near keys alone.

    Taken off every exponent it lets none overflow, and not all of them vanish: of near keys alone the largest weight is
    then 1, and far weights are not small by themselves.
    """
    largest = near.amax(-1, keepdim=True)
    if isinstance(near_alone, Tensor):
        return torch.where(near_alone, largest, largest.clamp(min=0))
    for others in (slice(0, near_alone.start), slice(max(near_alone.start, near_alone.stop), near.shape[-2])):
        if others.stop > others.start:
            largest[..., others, :].clamp_(min=0)
    return largest


def fading(peak: Tensor) -> Tensor:
    """exp(-m), the factor of far weights. Where m is below 0 there are none, and any finite factor will do."""
    return torch.exp(-peak.clamp(min=FAINTEST))


def exact(near: Tensor, peak: Tensor) -> Tensor:
    """exp(s - m) for near keys, 0 for the others, in place of their logits."""
    return near.sub_(peak).exp_()


def series(s: Tensor, sight: Sight, order: int, faded: Tensor) -> Tensor:
    """P(s) exp(-m) for far keys, 0 for the others. Its slope is the series of one order less."""
    return (exponential(s, order) * faded).masked_fill_(sight.not_far, 0)
