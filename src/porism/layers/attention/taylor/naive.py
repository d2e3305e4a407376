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


def decays(log_decay: Tensor) -> Tensor:
    """What is left of each key at each query, (B, G, S) -> (B, G, S, S): the product of the decays between them.

    Step by step, since a difference of two sums over all steps has lost what is small beside the largest.
    """
    left, rows = torch.zeros_like(log_decay), []
    for i, decay in enumerate(log_decay.exp().unbind(2)):
        left = left * decay.unsqueeze(2)
        left = torch.cat([left[..., :i], torch.ones_like(left[..., :1]), left[..., i + 1 :]], 2)
        rows.append(left)
    return torch.stack(rows, 2) if rows else log_decay.unsqueeze(2)


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
        w = w * share(decays(steps), A)
    return w @ v / torch.where(seen.any(-1, keepdim=True), w.sum(-1, keepdim=True), 1)
