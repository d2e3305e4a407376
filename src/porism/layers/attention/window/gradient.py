"""Blocks of attention, forward and back by hand: a line of maths above a line of code, no autograd.

S = scale Q K^T, P = softmax(S) over the keys seen, O = (P * Z) V, where Z is 1 / keep for a weight that dropout keeps
and 0 for one that it drops. q and dO are blocks of queries (N, count, rows, D), k and v of keys (N, count, span, D).
The README derives every line.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window.kernels.blocks import Blocks, Cut, Interleaved
from porism.layers.attention.window.kernels.cpu import weights


class WindowGradient(NamedTuple):
    """What reaches queries, keys and values, in their shapes."""

    q: Tensor
    k: Tensor
    v: Tensor

    def add(self, cut: Cut, blocks: Blocks, found: "WindowGradient") -> None:
        """Adds that of some blocks to that of the whole: q is written, since a query is in one block only."""
        # dQ[i] = dQ of the block that i is in
        cut.write_queries(self.q, blocks, found.q)
        # dK[j] = sum of dK over the blocks that look at j
        cut.add_keys(self.k, blocks, found.k)
        # dV[j] = sum of dV over the blocks that look at j
        cut.add_keys(self.v, blocks, found.v)


def attend_gradient(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    scale: float,
    kept: Tensor | None = None,
    keep: float = 1.0,
) -> WindowGradient:
    """The gradient of `attend`: for keys and values block by block, the same key once in each block that it is in."""
    P = weights(q, k, seen, scale)
    # dP = dO V^T * Z
    dP = dO.to(P.dtype) @ v.to(P.dtype).mT.contiguous()
    dropped = P
    if kept is not None:
        dP.mul_(kept).div_(keep)
        dropped = P * kept / keep
    # dV = (P * Z)^T dO
    dV = dropped.to(dO.dtype).mT @ dO
    # dS = P * (dP - sum of dP * P)     the sum over a row: what all its weights lose together when one of them grows
    dS = dP.sub_((dP * P).sum(-1, keepdim=True)).mul_(P).mul_(scale).to(q.dtype)
    # dQ = scale dS K
    dQ = dS @ k
    # dK = scale dS^T Q
    dK = dS.mT @ q
    return WindowGradient(dQ, dK, dV)


@torch.no_grad()
def gradient(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    offset: int = 0,
    kept: Tensor | None = None,
    keep: float = 1.0,
) -> WindowGradient:
    """The gradient of the whole: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), dO (B, A, T, H).

    `kept` are the weights that dropout kept, as `Cut.draw` drew them; None where it dropped none.
    """
    if pattern.dilation > 1:
        # Tokens only change their positions, and so do their gradients.
        apart = Interleaved(pattern, q.shape[2], k.shape[2], offset)
        operands = apart.queries(dO), apart.queries(q), apart.keys(k), apart.keys(v)
        padding = apart.padding(key_padding, k)
        found = gradient(*operands, apart.pattern, scale, padding, apart.offset, kept, keep)
        return WindowGradient(apart.join_queries(found.q), apart.join_keys(found.k), apart.join_keys(found.v))
    sums = WindowGradient(torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v))
    cut = Cut(q, k, pattern, offset, key_padding)
    for blocks, seen, part in cut.dropping(kept):
        operands = cut.queries(dO, blocks), cut.queries(q, blocks), cut.keys(k, blocks), cut.keys(v, blocks)
        sums.add(cut, blocks, attend_gradient(*operands, seen, scale, part, keep))
    return sums
