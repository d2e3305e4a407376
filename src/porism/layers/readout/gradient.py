"""The gradient of the cross-entropy by hand: a line of maths above a line of code, no autograd.

z = h U + b, p = softmax(z), J = sum of -log p[y]; U is kept transposed as `weight` (V, H). The README derives it.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Gradient(NamedTuple):
    """dJ/dh (N, H), dJ/dU transposed (V, H) and dJ/db (V); None for what is not asked for."""

    h: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


@torch.no_grad()
def gradient(h: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Gradient:
    """The gradient of the summed loss, all rows at once: h (N, H), weight (V, H), bias (V), targets (N)."""
    z = h @ weight.mT if bias is None else h @ weight.mT + bias
    sums = Gradient(torch.empty_like(h), torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias))
    accumulate(z, h, weight, targets, slice(None), sums)
    return sums


def accumulate(z: Tensor, h: Tensor, weight: Tensor, targets: Tensor, rows: slice, sums: Gradient) -> Tensor:
    """Adds the gradient of a block of `rows` to `sums`; answers the block's losses, (n).

    z (n, V) are the block's scores and are overwritten; h (n, H) and targets (n) are the block's own. The products run
    in the type of h and weight, the sums are kept in the type of `sums`.
    """
    exact = torch.promote_types(z.dtype, torch.float32)
    # Where z[y] stands, row after row: gather and scatter would copy the whole block.
    at_y = torch.arange(len(z), device=z.device) * z.shape[1] + targets
    if z.dtype == exact:
        z_y, z_max = z.view(-1)[at_y], z.amax(1)
        # p = softmax(z)                            in place, so that a block stays in the cache
        p = torch.softmax(z, 1, out=z)
        # -log p[y] = z_max - z[y] - log p_max      the largest p never underflows, p[y] may
        losses = z_max - z_y - p.amax(1).log()
    else:
        p = torch.softmax(z, 1, out=z)
        # -log p[y]                                 at most 87 nats if p[y] underflows; saves two passes over z
        losses = -p.view(-1)[at_y].to(exact).clamp_min(torch.finfo(exact).tiny).log()
    # a = p - onehot(y)                             dJ/dz, row by row
    a = p
    a.view(-1).index_add_(0, at_y, a.new_full((1,), -1.0).expand(len(a)))
    if sums.bias is not None:
        # db = sum of a                             fastest as a product with ones, where that is exact
        if a.dtype == exact:
            torch.addmv(sums.bias, a.mT, a.new_ones(len(a)), out=sums.bias)
        else:
            sums.bias.add_(a.sum(0))
    if sums.h is not None:
        # dh = a U^T
        sums.h[rows] = a @ weight
    if sums.weight is not None:
        # dU^T = sum of a^T h
        if h.dtype == sums.weight.dtype:
            torch.addmm(sums.weight, a.mT, h, out=sums.weight)
        else:
            sums.weight.add_(a.mT @ h)
    return losses
