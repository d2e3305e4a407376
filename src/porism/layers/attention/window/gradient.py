"""Blocks of attention, forward and back by hand: a line of maths above a line of code, no autograd.

S = scale Q K^T, P = softmax(S) over the keys seen, O = (P * Z) V, where Z is 1 / keep for a weight that dropout keeps
and 0 for one that it drops. q and dO are blocks of queries (N, count, rows, D), k and v of keys (N, count, span, D).
The README derives every line.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window.kernels.blocks import Blocks, Cut, Interleaved


class Gradient(NamedTuple):
    """What reaches queries, keys and values, in their shapes."""

    q: Tensor
    k: Tensor
    v: Tensor

    def add(self, cut: Cut, blocks: Blocks, found: "Gradient") -> None:
        """Adds that of some blocks to that of the whole: q is written, since a query is in one block only."""
        # dQ[i] = dQ of the block that i is in
        cut.write_queries(self.q, blocks, found.q)
        # dK[j] = sum of dK over the blocks that look at j
        cut.add_keys(self.k, blocks, found.k)
        # dV[j] = sum of dV over the blocks that look at j
        cut.add_keys(self.v, blocks, found.v)


def weights(q: Tensor, k: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """P, (N, count, rows, span), in float32 or better. `seen` is True where a query looks at a key, None for all."""
    exact = torch.promote_types(q.dtype, torch.float32)
    # S = scale Q K^T                   K^T laid out anew: a batch of blocks that overlap cannot be multiplied in place
    S = (q.to(exact) @ k.to(exact).mT.contiguous()).mul_(scale)
    if seen is None:
        return torch.softmax(S, -1)
    # P = softmax(S)                    0 for what is not seen, and so in a row that sees no key
    return torch.softmax(S.masked_fill_(~seen, -torch.inf), -1).masked_fill_(~seen, 0)


def attend(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, scale: float, kept: Tensor | None = None, keep: float = 1.0
) -> Tensor:
    """O, (N, count, rows, H). `kept` is True for the weights that dropout keeps, each with probability `keep`."""
    P = weights(q, k, seen, scale)
    # O = (P * Z) V
    return (P if kept is None else P.mul_(kept).div_(keep)).to(v.dtype) @ v


def attend_gradient(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    scale: float,
    kept: Tensor | None = None,
    keep: float = 1.0,
) -> Gradient:
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
    return Gradient(dQ, dK, dV)


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
    kept: Sequence[Tensor] = (),
    keep: float = 1.0,
) -> Gradient:
    """The gradient of the whole: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), dO (B, A, T, H).

    `kept` has for each part of the cut the weights that dropout kept, and is empty where it dropped none.
    """
    if pattern.dilation > 1:
        # Tokens only change their places, and so do their gradients.
        apart = Interleaved(pattern, q.shape[2], k.shape[2], offset)
        operands = apart.queries(dO), apart.queries(q), apart.keys(k), apart.keys(v)
        padding = apart.padding(key_padding, k)
        found = gradient(*operands, apart.pattern, scale, padding, apart.offset, kept, keep)
        return Gradient(apart.join_queries(found.q), apart.join_keys(found.k), apart.join_keys(found.v))
    sums = Gradient(torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v))
    cut = Cut(q, k, pattern, offset, key_padding)
    for number, (blocks, seen) in enumerate(cut):
        operands = cut.queries(dO, blocks), cut.queries(q, blocks), cut.keys(k, blocks), cut.keys(v, blocks)
        part = kept[number] if kept else None
        sums.add(cut, blocks, attend_gradient(*operands, seen, scale, part, keep))
    return sums
