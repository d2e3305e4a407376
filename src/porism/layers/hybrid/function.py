"""Both passes as one differentiable function: for autograd, and for the compiler."""

from typing import Any

import torch
from torch import Tensor

from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only
from porism.layers.hybrid import kernels
from porism.layers.hybrid.gradient import Gradient, gradient
from porism.layers.hybrid.sight import Sights
from porism.layers.hybrid.sums import Passed, forward
from porism.layers.hybrid.walks import Task
from porism.layers.pattern import CAUSAL, FULL
from porism.layers.taylor.division import Division
from porism.layers.taylor.features import MAPS, FeatureMap, choose_map, feature_map
from porism.layers.taylor.operands import Operands


def features(order: int, D: int) -> int:
    """M, how many features the series has."""
    return MAPS[choose_map(None, order)].size(order, D)


def hybrid(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    if torch.compiler.is_compiling():
        answer, _, _, last = _forward(q, k, v, key_padding, first, *task)
        # The backward pass reads the answer, and users may change theirs. Where nobody does, no copy is compiled.
        return answer.clone(), last
    rows, last = _Hybrid.apply(q, k, v, key_padding, first, task)  # type: ignore[no-untyped-call]
    return rows.transpose(1, 2), last


def pass_forward(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Passed, Tensor]:
    """What was computed, and the last state, which holds nothing unless it was asked for."""
    if kernels.serves(task, q, k, v, first):
        passed = kernels.forward(task, q, k, v, key_padding)
        return passed, passed.totals.new_empty(0)
    operands, phi, sights, division = _prepared(q, k, v, key_padding, first, task)
    state = operands.first_state(phi.count, first)
    passed = forward(operands, phi, task, sights, division, state, resumed=first is not None)
    return passed, state if task.return_state else state.new_empty(0)


def pass_backward(
    dO: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    passed: Passed,
    task: Task,
) -> Gradient:
    if kernels.serves(task, q, k, v, first):
        return kernels.backward(task, dO, q, k, v, key_padding, passed)
    operands, phi, sights, division = _prepared(q, k, v, key_padding, first, task)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if task.return_state else None)
    return gradient(dO, passed, operands, phi, task, sights, division, state, dstate, resumed=first is not None)


def _prepared(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Operands, FeatureMap, Sights, Division]:
    operands = Operands(q, k, v, key_padding, task.scale)
    phi = feature_map(choose_map(None, task.order), task.order, operands.no_columns)
    division = Division(operands, CAUSAL if task.causal else FULL, task.offset, phi.is_positive, first)
    return operands, phi, Sights(task, operands, first), division


class _Hybrid(torch.autograd.Function):
    """The forward pass with the backward pass by hand. Kept are the operands, the answer and two numbers a query.

    The answer goes out as (B, T, A, H), as it lies in memory, and is no view: users may change it in place.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
    ) -> tuple[Tensor, Tensor]:
        passed, last = pass_forward(q, k, v, key_padding, first, task)
        ctx.save_for_backward(q, k, v, key_padding, first, *passed)
        rows = passed.answer.transpose(1, 2).data
        ctx.task, ctx.watch = task, InPlaceWatch(rows) if any(ctx.needs_input_grad) else None
        return rows, last

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dO: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, first, *kept = ctx.saved_tensors
        passed = Passed(*kept)
        with without_autocast(dO):
            if ctx.watch.changed:
                passed, _ = pass_forward(q, k, v, key_padding, first, ctx.task)
            d = pass_backward(dO.transpose(1, 2), dlast, q, k, v, key_padding, first, passed, ctx.task)
        return d.q, d.k, d.v, None, None if first is None else d.state.to(first.dtype), None


@torch.library.custom_op("porism::hybrid", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    window: int,
    order: int,
    causal: bool,
    scale: float,
    offset: int,
    return_state: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One operator for the compiler, which would write out the loop over the length otherwise, span by span."""
    task = Task(window, order, causal, scale, offset, return_state)
    passed, last = pass_forward(q, k, v, key_padding, first, task)
    return *passed, last


@torch.library.custom_op("porism::hybrid_backward", mutates_args=())
def _backward(
    dO: Tensor,
    dlast: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
    peaks: Tensor,
    window: int,
    order: int,
    causal: bool,
    scale: float,
    offset: int,
    return_state: bool,
) -> list[Tensor]:
    task = Task(window, order, causal, scale, offset, return_state)
    return list(pass_backward(dO, dlast, q, k, v, key_padding, first, Passed(answer, totals, peaks), task))


@_forward.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Any, first: Any, *settings: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, A, T, D), G, H, task = q.shape, k.shape[1], v.shape[3], Task(*settings)
    exact = torch.promote_types(q.dtype, torch.float32)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    totals, peaks = (q.new_empty(B, A, T, 1, dtype=exact) for _ in range(2))
    state = (B * G, features(task.order, D), H + 1) if task.return_state else (0,)
    return answer, totals, peaks, q.new_empty(state, dtype=exact)


@_backward.register_fake
def _(dO: Tensor, dlast: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> list[Tensor]:
    task = Task(*rest[5:])
    exact = torch.promote_types(q.dtype, torch.float32)
    state = k.shape[0] * k.shape[1], features(task.order, q.shape[3]), v.shape[3] + 1
    return [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), q.new_empty(state, dtype=exact)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:5], *output[:3])
    ctx.settings = inputs[5:]


def _go_back(ctx: Any, dO: Tensor, _dtotals: Tensor, _dpeaks: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
    dq, dk, dv, dstate = _backward(dO, dlast, *ctx.saved_tensors, *ctx.settings)
    first = ctx.saved_tensors[4]
    return dq, dk, dv, None, None if first is None else dstate.to(first.dtype), *(None,) * len(ctx.settings)


_forward.register_autograd(_go_back, setup_context=_keep)
