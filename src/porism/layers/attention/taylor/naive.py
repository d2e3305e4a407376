"""The oracle: every weight of every pair of query and key, clear and slow."""

from math import factorial

import torch
from torch import Tensor

from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import scale_of, share


def weights(q: Tensor, k: Tensor, order: int = 2, feature_map: str | None = None) -> Tensor:
    """The series of exp(q . k) for every pair, (..., T, D), (..., S, D) -> (..., T, S)."""
    s = q @ k.mT
    if feature_map == "diagonal":
        return 1 + s + (q**2) @ (k**2).mT / 2
    return torch.stack([s**power / factorial(power) for power in range(order + 1)]).sum(0)


def taylor_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = 2,
    feature_map: str | None = None,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding_mask: Tensor | None = None,
    offset: int = 0,
    log_decay: Tensor | None = None,
) -> Tensor:
    """z_i = sum of w_ij v_j / sum of w_ij over the keys j that query i attends to; 0 where there are none.

    With a decay a weight is multiplied by that of every step from key j, without it, to query i. A pad is no step.

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), key_padding (B, S), log_decay (B, G, S) -> (B, A, T, H).
    """
    A, T, S = q.shape[1], q.shape[2], k.shape[2]
    k, v = share(k, A), share(v, A)
    seen = pattern.mask(T, S, offset, device=q.device)
    if key_padding_mask is not None:
        seen = seen & ~key_padding_mask[:, None, None, :]
    w = weights(scale_of(q, scale) * q, k, order, feature_map) * seen
    if log_decay is not None:
        steps = log_decay if key_padding_mask is None else log_decay.masked_fill(key_padding_mask[:, None], 0)
        total = share(steps.cumsum(2).unsqueeze(-1), A)
        w = w * torch.where(seen, total - total.mT, 0).exp()
    return w @ v / torch.where(seen.any(-1, keepdim=True), w.sum(-1, keepdim=True), 1)
