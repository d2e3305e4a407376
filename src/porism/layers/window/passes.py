"""The blocks one after the other, forward and back, as one operation for autograd."""

from typing import Any

import torch
from torch import Tensor

from porism.layers.derivative import first_derivative_only
from porism.layers.kernels import available
from porism.layers.pattern import Pattern
from porism.layers.window import fused, gradient
from porism.layers.window.blocks import Blocks, Cut

WIDEST = 256
"""The widest queries, keys and values for which there is a kernel."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    offset: int = 0,
    keep: float = 1.0,
) -> Tensor:
    """A sliding (not dilated) or block pattern: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) -> (B, A, T, H).

    A weight is kept with probability `keep`. A GPU has a kernel of ours and a CPU a fused one of torch's. Neither knows
    dropout: with it, and where there is no kernel, the blocks go the way of `gradient.py`.
    """
    operation: type[torch.autograd.Function] = _ByHand
    if keep == 1 and kernel_in_use(q, v.shape[-1]) == "triton" and min(q.numel(), v.numel()) > 0:
        operation = _ByKernel
    elif keep == 1 and q.device.type == "cpu":
        operation = _Fused
    answer: Tensor = operation.apply(q, k, v, key_padding, pattern, scale, offset, keep)
    return answer


def kernel_in_use(q: Tensor, H: int) -> str:
    """Which code answers queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return "triton" if available(q) and max(q.shape[-1], H) <= WIDEST else "torch"


class _ByKernel(torch.autograd.Function):
    """Keeps q, k, v, the answer and a number a row."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding: Tensor | None,
        pattern: Pattern,
        scale: float,
        offset: int,
        keep: float,
    ) -> Tensor:
        from porism.layers.window import triton

        out, logs = triton.forward(q, k, v, pattern, scale, key_padding, offset)
        ctx.save_for_backward(q, k, v, key_padding, out, logs)
        ctx.options = pattern, scale, offset
        return out

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        from porism.layers.window import triton

        q, k, v, key_padding, out, logs = ctx.saved_tensors
        pattern, scale, offset = ctx.options
        return *triton.backward(dO, q, k, v, out, logs, pattern, scale, key_padding, offset), *(None,) * 5


class _Fused(torch.autograd.Function):
    """Keeps q, k, v, the answer and a number a row."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding: Tensor | None,
        pattern: Pattern,
        scale: float,
        offset: int,
        keep: float,
    ) -> Tensor:
        cut = Cut(q, k, pattern, offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
        out, log_sums = _empty_answer(q, v), []
        for blocks, seen in cut:
            part, sums = fused.attend(*_operands(cut, blocks, q, k, v), seen, scale)
            cut.write_queries(out, blocks, part)
            log_sums.append(sums)
        ctx.save_for_backward(q, k, v, key_padding, out, *log_sums)
        ctx.options = pattern, scale, offset
        return out

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, out, *log_sums = ctx.saved_tensors
        pattern, scale, offset = ctx.options
        cut = Cut(q, k, pattern, offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
        sums = gradient.Gradient(torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v))
        for (blocks, seen), log_sum in zip(cut, log_sums, strict=True):
            operands = cut.queries(dO, blocks), *_operands(cut, blocks, q, k, v), cut.queries(out, blocks), log_sum
            sums.add(cut, blocks, fused.attend_gradient(*operands, seen, scale))
        return *sums, None, None, None, None, None


class _ByHand(torch.autograd.Function):
    """Keeps q, k and v, and with dropout which weights were kept."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding: Tensor | None,
        pattern: Pattern,
        scale: float,
        offset: int,
        keep: float,
    ) -> Tensor:
        cut = Cut(q, k, pattern, offset, key_padding)
        out, all_kept = _empty_answer(q, v), []
        for blocks, seen in cut:
            operands = _operands(cut, blocks, q, k, v)
            kept = None
            if keep < 1:
                kept = torch.rand(*operands[0].shape[:3], blocks.span, device=q.device) < keep
                all_kept.append(kept)
            cut.write_queries(out, blocks, gradient.attend(*operands, seen, scale, kept, keep))
        ctx.save_for_backward(q, k, v, key_padding, *all_kept)
        ctx.options = pattern, scale, offset, keep
        return out

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, *all_kept = ctx.saved_tensors
        pattern, scale, offset, keep = ctx.options
        sums = gradient.gradient(dO, q, k, v, pattern, scale, key_padding, offset, all_kept, keep)
        return *sums, None, None, None, None, None


def _operands(cut: Cut, blocks: Blocks, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return cut.queries(q, blocks), cut.keys(k, blocks), cut.keys(v, blocks)


def _empty_answer(q: Tensor, v: Tensor) -> Tensor:
    """(B, A, T, H), the heads of a token side by side in memory, as the projection behind them reads them."""
    B, A, T, _ = q.shape
    return q.new_empty(B, T, A, v.shape[-1]).transpose(1, 2)
