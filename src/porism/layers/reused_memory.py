"""Memory of large tensors that are made anew at every step, used again once nobody holds them.

The C library gives a block above LARGE back to the system as soon as it is free. The next one is new memory, which the
system maps and clears page by page: that takes longer than to fill it.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import finalize

import numpy as np
import torch
from torch import Tensor

from porism.layers.operands import has_values

LARGE = 2**25
"""Bytes. Up to it glibc keeps what is free for the next tensor itself."""
TYPES = {torch.float32: np.float32, torch.float64: np.float64}


class ReusedMemory:
    """Blocks of memory, each lent to one tensor at a time.

    >>> memory = ReusedMemory()
    >>> address = memory.empty((9000, 1000), torch.float32).data_ptr()
    >>> memory.empty((9000, 1000), torch.float32).data_ptr() == address
    True
    >>> held = memory.empty((9000, 1000), torch.float32)[3:]
    >>> memory.empty((9000, 1000), torch.float32).data_ptr() == address
    False

    To whoever gets it such a tensor is as any other. Its memory is lent again when the tensor, its views and all else
    that shares its numbers are gone, and no sooner.
    """

    def __init__(self) -> None:
        self._free: defaultdict[Any, list[Any]] = defaultdict(list)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor that holds any numbers. dtype: one of TYPES."""
        free = self._free[shape, dtype]
        try:
            block = free.pop()
        except IndexError:
            block = np.empty(shape, TYPES[dtype])
        # An array of its own for each tensor: it lives for as long as anything holds the tensor's storage.
        lent = block[...]
        finalize(lent, free.append, block).atexit = False
        return torch.from_numpy(lent)


_CURRENT: ContextVar[ReusedMemory | None] = ContextVar("reused_memory", default=None)


@contextmanager
def reusing(memory: ReusedMemory) -> Iterator[None]:
    """While this lasts, layers take memory for large tensors from this one."""
    token = _CURRENT.set(memory)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def memory_for(x: Tensor) -> ReusedMemory | None:
    """Where to take a tensor like x from; None for torch's own memory."""
    # Numbers first: the compiler cannot follow the question that comes after.
    if not has_values(x) or x.nbytes <= LARGE or x.dtype not in TYPES:
        return None
    return _CURRENT.get()
