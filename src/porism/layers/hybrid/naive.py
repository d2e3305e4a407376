"""The oracle: every weight of every pair of query and key, clear and slow."""

from math import factorial

import torch
from torch import Tensor

from porism.layers.attention.naive import attend, looked_at
from porism.layers.pattern import FULL, Pattern


def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> Tensor:
    """o_i = sum of w_ij v_j / sum of w_ij over the keys looked at, w = exp(s) for |i - j| < W and its series elsewhere.

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), key_padding (B, S) -> (B, A, T, H).
    """
    query, key = (torch.arange(x.shape[2], device=q.device) for x in (q, k))
    near = (query[:, None] + offset - key).abs() < window

    def weight(s: Tensor) -> Tensor:
        series = torch.stack([s**power / factorial(power) for power in range(order + 1)]).sum(0)
        # The largest logit is taken off both alike: it goes out of the quotient, and lets no exp overflow.
        largest = s.detach().amax(-1, keepdim=True).clamp(min=0)
        return torch.where(near, torch.exp(s - largest), series * torch.exp(-largest))

    return attend(q, k, v, weight, looked_at(pattern, q, k, key_padding, offset), scale)
