"""The series of order 2 on a GPU: parallel over the length, forward, backward and token by token.

Three launches answer a causal pass: the sums over each chunk of keys by itself, their scan over the chunks, and then
every tile of queries by itself, with the sums before its chunk and the few keys within it. The backward pass does the
same twice, for the queries forward and for the keys from the end. Where keys decay, the factors are in all of these.

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
from porism.layers.operators import is_recorded

if TYPE_CHECKING:
    from porism.layers.attention.taylor.gradient import SeriesGradient
    from porism.layers.attention.taylor.kernels.cpu import SeriesSettings


def kernel_in_use(q: Tensor, H: int = 64, order: int = 2, map: str = "rolled") -> str:
    """Which code answers queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return "triton" if _has_sizes(q, H, order, map) and available(q) else "torch"


def serves(settings: "SeriesSettings", q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether there are kernels for this pass. Block-causal patterns and offsets are torch's."""
    T, (*_, S, H) = q.shape[2], v.shape
    has_pattern = settings.pattern == FULL or (settings.pattern == CAUSAL and settings.offset == 0 and T == S)
    return (
        has_pattern
        and min(q.numel(), v.numel()) > 0
        and _has_sizes(q, H, settings.order, settings.map)
        and available(q)
    )


def forward(
    settings: "SeriesSettings",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer, the sums of weights, and the last state: see `forward` of kernels/cpu.py."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    return passes.forward(settings, q, k, v, key_padding, log_decay, first)


def backward(
    settings: "SeriesSettings",
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> "SeriesGradient":
    """What reaches the operands and the first state: see `gradient` of taylor/gradient.py."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    return passes.backward(settings, dz, dlast, q, k, v, key_padding, log_decay, first, answer, totals)


def decodes(
    settings: "SeriesSettings",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    sums: Tensor,
    weights: Tensor,
) -> bool:
    """Whether one token can move a state on in one kernel: it is one, and nobody wants a gradient."""
    if q.shape[2] != 1 or not available(q) or torch.compiler.is_compiling():
        return False
    return not is_recorded((q, k, v, log_decay, sums, weights)) and serves(settings, q, k, v)


def decode(
    settings: "SeriesSettings",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    sums: Tensor,
    weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer for one token more, and the sums and weights of the state after it, in new tensors."""
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    after = _room_for(sums), _room_for(weights)
    answer, _ = passes.step(settings.scale, q, k, v, key_padding, log_decay, (sums, weights), after)
    return answer, *after


def decode_in_chunk(
    settings: "SeriesSettings",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sums: Tensor,
    weights: Tensor,
    chunk: tuple[Tensor, Tensor] | None,
    size: int,
) -> tuple[Tensor, tuple[Tensor, Tensor], tuple[Tensor, Tensor] | None]:
    """The answer for one token more, the sums and weights before its chunk, and the chunk's keys and values.

    The last token of a chunk makes new sums of all its keys, and leaves none of them.
    """
    from porism.layers.attention.taylor.kernels.triton import launches as passes

    before = sums, weights
    if 1 + (0 if chunk is None else chunk[0].shape[2]) < size:
        answer, keys, values = passes.step_in_chunk(settings.scale, q, k, v, before, chunk)
        return answer, before, (keys, values)
    after = _room_for(sums), _room_for(weights)
    answer, _ = passes.step(settings.scale, q, k, v, None, None, before, after, chunk)
    return answer, after, None


def _room_for(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=torch.float32, device=x.device)


def _has_sizes(q: Tensor, H: int, order: int, map: str) -> bool:
    widest = WIDEST[2 if q.dtype == torch.bfloat16 else 4]
    return order == 2 and map == "rolled" and q.shape[-1] in WIDTHS and widest >= H
