"""Blocks of attention through torch's fused kernel for CPUs, which goes through them on all cores and holds no weights.

q and dO are blocks of queries (N, count, rows, D), k and v of keys (N, count, span, D): to the kernel a batch of N with
`count` heads. It takes overlapping blocks as they are, and gives 0 for a query that sees no key.
"""

import torch
from torch import Tensor

from porism.layers.attention.window.gradient import Gradient

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def with_rows(x: Tensor) -> Tensor:
    """x (..., T, D) with rows that are dense and do not overlap, and so are those of its blocks.

    The kernel is called below torch's checks, and takes rows to be so. To torch a dimension of size 1 is contiguous
    with any stride, and what is padded then has rows of that stride.
    """
    dense = x.stride(-1) == 1 and x.stride(-2) >= x.shape[-1]
    return x if dense else x.clone(memory_format=torch.contiguous_format)


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """O, and the logarithm of each row's sum, (N, count, rows), that the way back asks for."""
    out, log_sums = _FORWARD(with_rows(q), with_rows(k), with_rows(v), attn_mask=_added(seen, q), scale=scale)
    return out, log_sums


def attend_gradient(
    dO: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sums: Tensor, seen: Tensor | None, scale: float
) -> Gradient:
    """As that of `gradient.py`, from the answer."""
    operands = with_rows(dO), with_rows(q), with_rows(k), with_rows(v), with_rows(out)
    return Gradient(*_BACKWARD(*operands, log_sums, 0.0, False, attn_mask=_added(seen, q), scale=scale))


def _added(seen: Tensor | None, q: Tensor) -> Tensor | None:
    """What the kernel adds to logits: 0 for a pair that is seen."""
    if seen is None:
        return None
    added = torch.where(seen, 0.0, -torch.inf).to(q.dtype)
    return added if seen.dim() == 2 else added.expand(*q.shape[:3], seen.shape[-1])
