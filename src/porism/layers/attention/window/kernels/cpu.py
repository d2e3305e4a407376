"""The blocks one after the other, through torch's fused kernel for CPUs or as products of matrices, on any device.

A block of queries is (N, count, rows, D), of keys (N, count, span, D): to the fused kernel a batch of N with `count`
heads. It goes through them on all cores, holds no weights, takes overlapping blocks as they are, gives 0 for a query
that sees no key, and knows no dropout.
"""

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window.kernels.blocks import Blocks, Cut

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def forward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, key_padding: Tensor | None = None, offset: int = 0
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, T, H) and the logarithms of the sums of weights (B, A, T), by the fused kernel."""
    q, k, v = with_rows(q), with_rows(k), with_rows(v)
    cut = Cut(q, k, pattern, offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
    answer = _empty_answer(q, v)
    logs = q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))
    for blocks, seen in cut:
        operands = (with_rows(x) for x in _operands(cut, blocks, q, k, v))
        part, log_sums = _FORWARD(*operands, attn_mask=_added(seen, cut, blocks, q), scale=scale)
        cut.write_queries(answer, blocks, part)
        place = cut.numbers(logs, blocks)
        place.copy_(log_sums.view(place.shape))
    return answer, logs


def backward(
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    answer: Tensor,
    logs: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """What reaches q, k and v, in their shapes, from what reaches the answer."""
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    dO, q, k, v = with_rows(dO), with_rows(q), with_rows(k), with_rows(v)
    cut = Cut(q, k, pattern, offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
    for blocks, seen in cut:
        operands = cut.queries(dO, blocks), *_operands(cut, blocks, q, k, v), cut.queries(answer, blocks)
        log_sums, mask = cut.numbers(logs, blocks).flatten(2).contiguous(), _added(seen, cut, blocks, q)
        found = _BACKWARD(*(with_rows(x) for x in operands), log_sums, 0.0, False, attn_mask=mask, scale=scale)
        cut.write_queries(dq, blocks, found[0])
        cut.add_keys(dk, blocks, found[1])
        cut.add_keys(dv, blocks, found[2])
    return dq, dk, dv


def forward_by_products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    offset: int = 0,
    kept: Tensor | None = None,
    keep: float = 1.0,
) -> Tensor:
    """The answer (B, A, T, H) on any device, with dropout where `kept` were drawn; gradient.py is the way back."""
    cut = Cut(q, k, pattern, offset, key_padding)
    answer = _empty_answer(q, v)
    for blocks, seen, part in cut.dropping(kept):
        cut.write_queries(answer, blocks, attend(*_operands(cut, blocks, q, k, v), seen, scale, part, keep))
    return answer


def weights(q: Tensor, k: Tensor, seen: Tensor | None, scale: float) -> Tensor:
    """P, (N, count, rows, span), in float32 or better. `seen` is True where a query attends to a key, None for all."""
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


def with_rows(x: Tensor) -> Tensor:
    """x (..., T, D) with rows that are dense and do not overlap, and so are those of its blocks.

    The kernel is called below torch's checks, and takes rows to be so. To torch a dimension of size 1 is contiguous
    with any stride, and what is padded then has rows of that stride.
    """
    dense = x.stride(-1) == 1 and x.stride(-2) >= x.shape[-1]
    return x if dense else x.clone(memory_format=torch.contiguous_format)


def _operands(cut: Cut, blocks: Blocks, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return cut.queries(q, blocks), cut.keys(k, blocks), cut.keys(v, blocks)


def _empty_answer(q: Tensor, v: Tensor) -> Tensor:
    """(B, A, T, H): the heads of a token side by side in memory, as the projection after them reads them."""
    B, A, T, _ = q.shape
    return q.new_empty(B, T, A, v.shape[-1]).transpose(1, 2)


def _added(seen: Tensor | None, cut: Cut, blocks: Blocks, q: Tensor) -> Tensor | None:
    """What the kernel adds to logits: 0 for a pair that is seen."""
    if seen is None:
        return None
    added = torch.where(seen, 0.0, -torch.inf).to(q.dtype)
    rows = cut.B * cut.G, blocks.count, cut.shared * blocks.rows
    return added if seen.dim() == 2 else added.expand(*rows, seen.shape[-1])
