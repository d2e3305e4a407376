"""Memory that a kernel keeps for its backward pass and that fake tensors know nothing of: oneDNN's LSTM on a CPU."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from porism.errors import CostError

MOST_FLOPS = 10**11
"""What the kernel may take to be run for the sake of its memory: a few seconds."""


class TooLargeToRun(CostError):
    """A kernel whose memory only a run tells was not run, since that would take long."""


class _Shaped(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype


def workspace_bytes(args: tuple[Any, ...]) -> int:
    """The bytes that a call of aten.mkldnn_rnn_layer keeps beside its outputs: the kernel is run at these shapes."""
    return _measured(tuple(_described(part) for part in args))


def _described(part: Any) -> Any:
    if isinstance(part, Tensor):
        return _Shaped(tuple(part.shape), part.dtype)
    return tuple(part) if isinstance(part, list) else part


@cache
def _measured(described: tuple[Any, ...]) -> int:
    (length, batch, _), (gates, width) = described[0].shape, described[1].shape
    flops = 2 * length * batch * gates * (width + gates // 4)
    if flops > MOST_FLOPS:
        raise TooLargeToRun(f"cost: only a run tells what the LSTM's kernel keeps, and one takes {flops:.1e} FLOPs.")
    with unset_fake_temporarily():
        args = [torch.zeros(part.shape, dtype=part.dtype) if isinstance(part, _Shaped) else part for part in described]
        return int(torch.ops.aten.mkldnn_rnn_layer.default(*args)[3].nbytes)
