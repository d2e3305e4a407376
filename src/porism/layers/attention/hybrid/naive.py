"""The oracle: every weight of every pair of query and key, clear and slow."""

from math import factorial

import torch
from torch import Tensor

from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import scale_of, share


def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window_size: int,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding_mask: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """o_i = sum of w_ij v_j / sum of w_ij over the keys looked at, w = exp(s) for |i - j| < W and its series elsewhere.

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), key_padding (B, S) -> (B, A, T, H).
    """
    A, T, S = q.shape[1], q.shape[2], k.shape[2]
    k, v = share(k, A), share(v, A)
    query, key = (torch.arange(length, device=q.device) for length in (T, S))
    within = (query[:, None] + offset - key).abs() < window_size
    seen = pattern.mask(T, S, offset, q.device)
    if key_padding_mask is not None:
        seen = seen & ~key_padding_mask[:, None, None, :]
    near, far = (seen & within).expand(*q.shape[:2], T, S), (seen & ~within).expand(*q.shape[:2], T, S)
    s = scale_of(q, scale) * (q @ k.mT)
    series = torch.stack([s**power / factorial(power) for power in range(order + 1)]).sum(0)
    # The logarithm of the largest weight is taken off every exponent: it goes out of the quotient.
    logs = torch.where(near, s, series.abs().log()).masked_fill(~(near | far), -torch.inf).detach()
    largest = logs.amax(-1, keepdim=True)
    shift = torch.where(largest.isfinite(), largest, 0)
    exact = torch.exp(torch.where(near, s - shift, -torch.inf))
    w = exact + torch.where(far, series * torch.exp(-torch.where(far.any(-1, keepdim=True), shift, 0)), 0)
    total = torch.where((near | far).any(-1, keepdim=True), w.sum(-1, keepdim=True), 1)
    return (w / total) @ v
