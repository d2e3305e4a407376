"""Bytes that each process of a data-parallel training sends, by formula."""

from porism.training.distributed.processes import HEAD


def step_bytes(parameters: int, tensors: int, size: int, itemsize: int = 4) -> float:
    """Bytes that a process sends in one step of data-parallel training, rank 0's message aside (`message_bytes`).

    2 (P - 1) / P times the N gradients, a flag for each of their tensors, and the loss: a ring reduces the parts and
    hands the sums on. The more processes, the nearer it comes to twice the parameters.

    >>> step_bytes(1_000_000, 12, size=2), step_bytes(1_000_000, 12, size=1024) / step_bytes(1_000_000, 12, size=2)
    (4000052.0, 1.998046875)
    """
    return 2 * (size - 1) / size * (parameters + tensors + 1) * itemsize


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
