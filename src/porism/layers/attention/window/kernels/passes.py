"""The blocks one after the other, forward and back, as one operation for autograd."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window import gradient
from porism.layers.attention.window.kernels import fused
from porism.layers.attention.window.kernels.blocks import Blocks, Cut
from porism.layers.derivative import InPlaceWatch, first_derivative_only, own_memory
from porism.layers.kernels import available

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
    operation: type[_Operation] = _ByHand
    if keep == 1 and kernel_in_use(q, v.shape[-1]) == "triton" and min(q.numel(), v.numel()) > 0:
        operation = _ByKernel
    elif keep == 1 and q.device.type == "cpu":
        operation, q, k, v = _Fused, fused.with_rows(q), fused.with_rows(k), fused.with_rows(v)
    task = Task(pattern, scale, offset, keep)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        answer: Tensor = operation.apply(q, k, v, key_padding, task)  # type: ignore[no-untyped-call]
    else:
        answer = operation.answer(q, k, v, key_padding, task)[0]
    # Users may change the answer in place, so that what an operation gives is no view: it is turned here.
    return answer.transpose(1, 2)


def kernel_in_use(q: Tensor, H: int) -> str:
    """Which code answers queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return "triton" if available(q) and max(q.shape[-1], H) <= WIDEST else "torch"


class Task(NamedTuple):
    """What to do with queries, keys and values."""

    pattern: Pattern
    scale: float
    offset: int
    keep: float


class _Operation(torch.autograd.Function):
    """An answer (B, T, A, H), and the way back."""

    @staticmethod
    def answer(
        q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The answer, and what the way back needs beside the operands."""
        raise NotImplementedError


class _ByKernel(_Operation):
    """Keeps q, k, v, the answer and a number a row."""

    @staticmethod
    def answer(
        q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        from porism.layers.attention.window.kernels import triton

        answer, logs = triton.forward(q, k, v, task.pattern, task.scale, key_padding, task.offset)
        return answer, (logs,)

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task) -> Tensor:
        return _saved(ctx, *_ByKernel.answer(q, k, v, key_padding, task), q, k, v, key_padding, task)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        from porism.layers.attention.window.kernels import triton

        (q, k, v, key_padding, answer, logs), task = _kept(ctx, _ByKernel), ctx.task
        found = triton.backward(dO, q, k, v, answer, logs, task.pattern, task.scale, key_padding, task.offset)
        return *found, None, None


class _Fused(_Operation):
    """Keeps q, k, v, the answer and a number a row."""

    @staticmethod
    def answer(
        q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        cut = Cut(q, k, task.pattern, task.offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
        answer, log_sums = _empty_answer(q, v), []
        out = answer.transpose(1, 2)
        for blocks, seen in cut:
            part, sums = fused.attend(*_operands(cut, blocks, q, k, v), seen, task.scale)
            cut.write_queries(out, blocks, part)
            log_sums.append(sums)
        return answer, tuple(log_sums)

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task) -> Tensor:
        return _saved(ctx, *_Fused.answer(q, k, v, key_padding, task), q, k, v, key_padding, task)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, key_padding, answer, *log_sums), task = _kept(ctx, _Fused), ctx.task
        dO, out = fused.with_rows(dO.transpose(1, 2)), answer.transpose(1, 2)
        cut = Cut(q, k, task.pattern, task.offset, key_padding, width=max(q.shape[-1], v.shape[-1]))
        sums = gradient.Gradient(torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v))
        for (blocks, seen), log_sum in zip(cut, log_sums, strict=True):
            operands = cut.queries(dO, blocks), *_operands(cut, blocks, q, k, v), cut.queries(out, blocks), log_sum
            sums.add(cut, blocks, fused.attend_gradient(*operands, seen, task.scale))
        return *sums, None, None


class _ByHand(_Operation):
    """Keeps q, k and v, and with dropout which weights were kept."""

    @staticmethod
    def answer(
        q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        cut = Cut(q, k, task.pattern, task.offset, key_padding)
        answer, all_kept = _empty_answer(q, v), []
        for blocks, seen in cut:
            operands = _operands(cut, blocks, q, k, v)
            kept = None
            if task.keep < 1:
                kept = torch.rand(*operands[0].shape[:3], blocks.span, device=q.device) < task.keep
                all_kept.append(kept)
            part = gradient.attend(*operands, seen, task.scale, kept, task.keep)
            cut.write_queries(answer.transpose(1, 2), blocks, part)
        return answer, tuple(all_kept)

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task) -> Tensor:
        answer, all_kept = _ByHand.answer(q, k, v, key_padding, task)
        ctx.save_for_backward(q, k, v, key_padding, *all_kept)
        ctx.task = task
        return answer

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, key_padding, *all_kept), (pattern, scale, offset, keep) = ctx.saved_tensors, ctx.task
        sums = gradient.gradient(dO.transpose(1, 2), q, k, v, pattern, scale, key_padding, offset, all_kept, keep)
        return *sums, None, None


def _saved(ctx: Any, answer: Tensor, more: tuple[Tensor, ...], *operands: Any) -> Tensor:
    """Saves what the way back needs, and gives the answer, which may be changed in place later on."""
    *tensors, ctx.task = operands
    compiling = torch.compiler.is_compiling()
    ctx.save_for_backward(*tensors, answer if compiling else answer.data, *more)
    ctx.watch = None if compiling else InPlaceWatch(answer)
    return own_memory(answer) if compiling else answer


def _kept(ctx: Any, operation: type[_Operation]) -> tuple[Any, ...]:
    """What `_saved` saved: operands, answer, and the rest. An answer that was changed in place is computed again."""
    q, k, v, key_padding, answer, *more = ctx.saved_tensors
    if ctx.watch is not None and ctx.watch.changed:
        answer, _ = operation.answer(q, k, v, key_padding, ctx.task)
    return q, k, v, key_padding, answer, *more


def _operands(cut: Cut, blocks: Blocks, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return cut.queries(q, blocks), cut.keys(k, blocks), cut.keys(v, blocks)


def _empty_answer(q: Tensor, v: Tensor) -> Tensor:
    """(B, T, A, H): the heads of a token side by side in memory, as the projection behind them reads them."""
    B, A, T, _ = q.shape
    return q.new_empty(B, T, A, v.shape[-1])
