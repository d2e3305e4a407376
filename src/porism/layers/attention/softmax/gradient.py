"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

S = scale Q K^T, P = softmax(S) row by row over the keys looked at, O = P V. dO is the gradient that reaches O.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.request import scale_of, share


class SoftmaxGradient(NamedTuple):
    """What reaches the queries (B, A, T, D), keys (B, G, S, D) and values (B, G, S, H)."""

    q: Tensor
    k: Tensor
    v: Tensor


@torch.no_grad()
def gradient(dO: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None = None) -> SoftmaxGradient:
    """The gradient of softmax(scale q k^T) v, over the keys that the mask shows, fit for (B, A, T, S)."""
    (_, A, _, _), G = q.shape, k.shape[1]
    scale = scale_of(q, scale)
    K, V = share(k, A), share(v, A)
    # S = scale Q K^T
    S = (scale * (q @ K.mT)).masked_fill(~mask, -torch.inf)
    # P = softmax(S)                    0 in a row that attends to no key
    P = torch.softmax(S, -1).masked_fill(~mask.any(-1, keepdim=True), 0)
    # dV = P^T dO
    dV = P.mT @ dO
    # dP = dO V^T
    dP = dO @ V.mT
    # dS = P * (dP - sum of dP * P)     the sum over a row: what all its weights lose together when one of them grows
    dS = P * (dP - (dP * P).sum(-1, keepdim=True))
    # dQ = scale dS K
    dQ = scale * (dS @ K)
    # dK = scale dS^T Q
    dK = scale * (dS.mT @ q)
    # a key head that several query heads share gets what reaches it from all of them
    return SoftmaxGradient(dQ, gather(dK, G), gather(dV, G))


def gather(x: Tensor, G: int) -> Tensor:
    """The sum over the query heads that share a key head: from (B, A, S, D) to (B, G, S, D)."""
    B, A, S, D = x.shape
    return x.view(B, G, A // G, S, D).sum(2)
