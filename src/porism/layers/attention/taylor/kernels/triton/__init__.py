"""The series of order 2 on a GPU: parallel over the length, forward, backward and token by token.

Three launches answer a causal pass: the sums over each chunk of keys by itself, their scan over the chunks, and then
every tile of queries by itself, with the sums before its chunk and the few keys within it. The backward pass does the
same twice, for the queries forward and for the keys from the end.

>>> kernel_in_use(torch.randn(1, 8, 1000, 16))
'torch'
>>> kernel_in_use(torch.randn(1, 8, 1000, 16, device="cuda"))
'triton'
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor.kernels.triton.sizes import WIDEST, WIDTHS
from porism.layers.kernels import available

if TYPE_CHECKING:
    from porism.layers.attention.taylor.functional import TaylorState
    from porism.layers.attention.taylor.gradient import Gradient
    from porism.layers.attention.taylor.kernels.cpu import Task


def kernel_in_use(q: Tensor, H: int = 64, order: int = 2, map: str = "rolled") -> str:
    """Which code answers queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return "triton" if _has_sizes(q, H, order, map) and available(q) else "torch"


def serves(task: "Task", q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether there are kernels for this pass. Block-causal patterns and offsets are torch's."""
    T, (*_, S, H) = q.shape[2], v.shape
    looks = task.pattern == FULL or (task.pattern == CAUSAL and task.offset == 0 and T == S)
    return looks and min(q.numel(), v.numel()) > 0 and _has_sizes(q, H, task.order, task.map) and available(q)


def forward(
    task: "Task", q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer, the sums of weights, and the last state: see `pass_forward` of taylor/functional.py."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    return passes.forward(task, q, k, v, key_padding, first)


def backward(
    task: "Task",
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> "Gradient":
    """What reaches the operands and the first state: see `porism.layers.attention.taylor.functional.pass_backward`."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    return passes.backward(task, dz, dlast, q, k, v, key_padding, first, answer, totals)


def decodes(task: "Task", q: Tensor, k: Tensor, v: Tensor, state: "TaylorState") -> bool:
    """Whether one token can move a state on in one kernel: it is one, and nobody wants a gradient."""
    learned = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, state.sums, state.weights))
    return q.shape[2] == 1 and not learned and not torch.compiler.is_compiling() and serves(task, q, k, v)


def decode(
    task: "Task", q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, state: "TaylorState"
) -> tuple[Tensor, "TaylorState"]:
    """The answer for one token more, and the state behind it, in new tensors."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    sums, weights = (torch.empty(x.shape, dtype=torch.float32, device=x.device) for x in (state.sums, state.weights))
    after = type(state)(sums, weights, task.order, task.map)
    return passes.step(task.scale, q, k, v, key_padding, state, after)[0], after


def _has_sizes(q: Tensor, H: int, order: int, map: str) -> bool:
    widest = WIDEST[2 if q.dtype == torch.bfloat16 else 4]
    return order == 2 and map == "rolled" and q.shape[-1] in WIDTHS and widest >= H
