"""Both passes as one differentiable function: for autograd, and for the compiler."""

from typing import Any, cast

import torch
from torch import Tensor

from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only
from porism.layers.pattern import Kind, Pattern
from porism.layers.taylor import kernels
from porism.layers.taylor.division import Division
from porism.layers.taylor.features import MAPS, FeatureMap, feature_map
from porism.layers.taylor.gradient import Gradient, gradient
from porism.layers.taylor.operands import Operands
from porism.layers.taylor.sums import Task, forward

Passed = tuple[Tensor, Tensor, Tensor]
"""The answer, the sums of weights, and the last state, which holds nothing unless it was asked for."""


def series(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    if torch.compiler.is_compiling():
        pattern = task.pattern
        settings = (task.map, task.order, pattern.kind, pattern.window, task.scale, task.offset, task.return_state)
        answer, _, last = _forward(q, k, v, key_padding, first, *settings)
        # The backward pass reads the answer, and users may change theirs. Where nobody does, no copy is compiled.
        return answer.clone(), last
    rows, last = _Series.apply(q, k, v, key_padding, first, task)  # type: ignore[no-untyped-call]
    return rows.transpose(1, 2), last


def pass_forward(
    task: Task, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None = None, first: Tensor | None = None
) -> Passed:
    if kernels.serves(task, q, k, v):
        return kernels.forward(task, q, k, v, key_padding, first)
    operands, phi, division = _prepared(task, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    answer, totals = forward(operands, phi, task, division, state)
    return answer, totals, state if task.return_state else state.new_empty(0)


def pass_backward(
    task: Task,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> Gradient:
    if kernels.serves(task, q, k, v):
        return kernels.backward(task, dz, dlast, q, k, v, key_padding, first, answer, totals)
    operands, phi, division = _prepared(task, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if task.return_state else None)
    return gradient(dz, answer, totals, operands, phi, task, division, state, dstate)


def _prepared(
    task: Task, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None
) -> tuple[Operands, FeatureMap, Division]:
    operands = Operands(q, k, v, key_padding, task.scale)
    phi = feature_map(task.map, task.order, operands.no_columns)
    return operands, phi, Division(operands, task.pattern, task.offset, phi.is_positive, first)


class _Series(torch.autograd.Function):
    """The forward pass with the backward pass by hand. Kept are the operands, the answer and the sums of weights.

    The answer goes out as (B, T, A, H), as it lies in memory, and is no view: users may change it in place.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
    ) -> tuple[Tensor, Tensor]:
        answer, totals, last = pass_forward(task, q, k, v, key_padding, first)
        ctx.save_for_backward(q, k, v, key_padding, first, answer, totals)
        rows = answer.transpose(1, 2).data
        ctx.task, ctx.watch = task, InPlaceWatch(rows) if any(ctx.needs_input_grad) else None
        return rows, last

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dz: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, first, answer, totals = ctx.saved_tensors
        with without_autocast(dz):
            if ctx.watch.changed:
                answer, _, _ = pass_forward(ctx.task, q, k, v, key_padding, first)
            d = pass_backward(ctx.task, dz.transpose(1, 2), dlast, q, k, v, key_padding, first, answer, totals)
        return d.q, d.k, d.v, None, None if first is None else d.state.to(first.dtype), None


@torch.library.custom_op("porism::taylor", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    map: str,
    order: int,
    kind: str,
    window: int | None,
    scale: float,
    offset: int,
    return_state: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """One operator for the compiler, which would write out the loop over the length otherwise, span by span."""
    task = _task(map, order, kind, window, scale, offset, return_state)
    return pass_forward(task, q, k, v, key_padding, first)


@torch.library.custom_op("porism::taylor_backward", mutates_args=())
def _backward(
    dz: Tensor,
    dlast: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
    map: str,
    order: int,
    kind: str,
    window: int | None,
    scale: float,
    offset: int,
    return_state: bool,
) -> list[Tensor]:
    task = _task(map, order, kind, window, scale, offset, return_state)
    return list(pass_backward(task, dz, dlast, q, k, v, key_padding, first, answer, totals))


def _task(map: str, order: int, kind: str, window: int | None, *rest: Any) -> Task:
    return Task(map, order, Pattern(cast(Kind, kind), window), *rest)


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, key_padding: Any, first: Any, map: str, order: int, *rest: Any) -> Passed:
    B, A, T, H = *q.shape[:3], v.shape[3]
    exact = torch.promote_types(q.dtype, torch.float32)
    state = (B * k.shape[1], MAPS[map].size(order, q.shape[3]), H + 1) if rest[-1] else (0,)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    return answer, q.new_empty(B, A, T, 1, dtype=exact), q.new_empty(state, dtype=exact)


@_backward.register_fake
def _(dz: Tensor, dlast: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> list[Tensor]:
    map, order = rest[4:6]
    exact = torch.promote_types(q.dtype, torch.float32)
    state = q.new_empty(k.shape[0] * k.shape[1], MAPS[map].size(order, q.shape[3]), v.shape[3] + 1, dtype=exact)
    return [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), state]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Passed) -> None:
    answer, totals, _ = output
    ctx.save_for_backward(*inputs[:5], answer, totals)
    ctx.settings = inputs[5:]


def _go_back(ctx: Any, dz: Tensor, _dtotals: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
    dq, dk, dv, dstate = _backward(dz, dlast, *ctx.saved_tensors, *ctx.settings)
    first = ctx.saved_tensors[4]
    return dq, dk, dv, None, None if first is None else dstate.to(first.dtype), *(None,) * len(ctx.settings)


_forward.register_autograd(_go_back, setup_context=_keep)
