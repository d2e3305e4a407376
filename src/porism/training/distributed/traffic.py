"""Bytes that each process of a data-parallel training sends, by formula."""

import math
from collections.abc import Iterable, Sequence

from porism.training.distributed.processes import HEAD


def step_bytes(parameters: int, tensors: int, size: int, itemsize: int = 4) -> float:
    """Bytes that a process sends in one step of data-parallel training, rank 0's message aside (`message_bytes`).

    2 (P - 1) / P times the N gradients, a flag for each of their tensors, and the loss: a ring reduces the parts and
    hands the sums on. The more processes, the nearer it comes to twice the parameters.

    >>> step_bytes(1_000_000, 12, size=2), step_bytes(1_000_000, 12, size=1024) / step_bytes(1_000_000, 12, size=2)
    (4000052.0, 1.998046875)
    """
    return 2 * (size - 1) / size * (parameters + tensors + 1) * itemsize


def shard_bytes(root: int, layers: int, size: int, itemsize: int = 4, reduce_scatter: bool = True) -> float:
    """Bytes that a process sends in one step where each holds a part of the model (`--shard`).

    Parameters of layers are gathered forward and backward, those outside of layers (root) once; gradients of all are
    reduced and scattered. Each is (P - 1) / P of the numbers, and the loss is one more sum. `padded` counts them.

    reduce_scatter: False for gloo, which has none: torch sums all gradients there and each process keeps its part.

    >>> shard_bytes(0, 1_000_000, size=2), shard_bytes(0, 1_000_000, size=1024) / shard_bytes(0, 1_000_000, size=2)
    (6000004.0, 1.998046875)
    """
    gathers, reduces = root + 2 * layers, (1 if reduce_scatter else 2) * (root + layers)
    return (size - 1) / size * (gathers + reduces + 2) * itemsize


def padded(shapes: Iterable[Sequence[int]], size: int) -> int:
    """Numbers of tensors whose rows are cut into as many parts of one length as there are processes.

    >>> padded([(5, 3), (4,)], size=2)
    22
    """
    return sum(-(-rows // size) * size * math.prod(rest) for rows, *rest in shapes)


def norm_bytes(channels: int, size: int, itemsize: int = 4) -> float:
    """Bytes that a process sends in one step for a batch norm of the whole batch.

    C sums, a count and C squares are summed over the processes, and as many gradients.

    >>> norm_bytes(64, size=2)
    1032.0
    """
    return 2 * (size - 1) / size * 2 * (2 * channels + 1) * itemsize


def message_bytes(size: int) -> int:
    """Bytes of a step's message, over all links: what to do, at which learning rate, to each process but the first."""
    return (size - 1) * HEAD
