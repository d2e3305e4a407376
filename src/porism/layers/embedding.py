"""Rows of a matrix by their numbers, whose gradient is laid into memory that is used again.

e = L[x],  dL[v] = sum of de where x is v
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.layers.operands import is_plain
from porism.layers.reused_memory import ReusedMemory, memory_for


class Embedding(nn.Embedding):
    """nn.Embedding, bit for bit. Where memory is reused (`reusing`), a large gradient on a CPU takes half the time.

    >>> Embedding(10_000, 50)(torch.tensor([3, 1, 3])).shape
    torch.Size([3, 50])
    """

    def forward(self, input: Tensor) -> Tensor:
        memory = memory_for(self.weight)
        has_options = self.padding_idx is not None or self.max_norm is not None or self.scale_grad_by_freq
        if memory is None or has_options or self.sparse or not is_plain(input):
            return super().forward(input)
        embedded: Tensor = Lookup.apply(input, self.weight, memory)  # type: ignore[no-untyped-call]
        return embedded


class Lookup(torch.autograd.Function):
    """The rows, and their gradient in reused memory."""

    @staticmethod
    def forward(ctx: Any, indices: Tensor, weight: Tensor, memory: ReusedMemory) -> Tensor:
        # The weight itself is not read on the way back, and may have changed by then.
        ctx.save_for_backward(indices)
        ctx.shape, ctx.memory = weight.shape, memory
        return functional.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (indices,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a derivative of the gradient, which torch knows
            return None, row_sums(gradient, indices, ctx.shape[0]), None
        return None, _gradient(gradient, indices, ctx.shape, ctx.memory), None


def _gradient(gradient: Tensor, indices: Tensor, shape: torch.Size, memory: ReusedMemory) -> Tensor:
    """dL, of which only the rows that occur are summed; a copy of them, or of a row of zeros, fills the memory."""
    occurring, places = indices.unique(return_inverse=True)
    rows, zeros = shape[0], len(occurring)
    if 2 * zeros > rows:  # then the sums would be about as large as all of it
        return row_sums(gradient, indices, rows)
    sums = row_sums(gradient, places, zeros + 1)
    source = torch.full((rows,), zeros)
    source[occurring.long()] = torch.arange(zeros)
    return torch.index_select(sums, 0, source, out=memory.empty(shape, gradient.dtype))


def row_sums(gradient: Tensor, indices: Tensor, rows: int) -> Tensor:
    """dL of so many rows, in new memory."""
    summed: Tensor = torch.ops.aten.embedding_dense_backward(gradient, indices, rows, -1, False)
    return summed
