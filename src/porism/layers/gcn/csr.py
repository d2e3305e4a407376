"""A sparse matrix row by row: where each row starts, and the columns and values it stores."""

from typing import NamedTuple

import torch
from torch import Tensor


class Csr(NamedTuple):
    """The stored entries of a matrix, the first row's before the second's.

    >>> matrix = Csr(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]), torch.tensor([5.0, 6.0, 7.0]))
    >>> matrix.to_dense(width=3)
    tensor([[0., 0., 5.],
            [6., 7., 0.]])

    Shapes: starts (rows + 1) of int64, columns and values (stored entries), columns of int32: half the bytes to read.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor

    @property
    def height(self) -> int:
        return self.starts.shape[0] - 1

    @property
    def stored(self) -> int:
        return self.columns.shape[0]

    def to(self, device: torch.device | str) -> "Csr":
        return Csr(*(part.to(device) for part in self))

    def to_dense(self, width: int) -> Tensor:
        dense = self.values.new_zeros(self.height, width)
        return dense.index_put_((rows_of(self.starts), self.columns), self.values, accumulate=True)


class Transposition(NamedTuple):
    """The pattern of the transposed matrix, and where each of its values stands in the matrix it came from."""

    starts: Tensor
    columns: Tensor
    order: Tensor

    def of(self, values: Tensor) -> Csr:
        return Csr(self.starts, self.columns, values.index_select(0, self.order))


def rows_of(starts: Tensor) -> Tensor:
    """The row of every stored entry.

    >>> rows_of(torch.tensor([0, 1, 3]))
    tensor([0, 1, 1])
    """
    return torch.repeat_interleave(torch.arange(len(starts) - 1, device=starts.device), starts.diff())


def starts_of(rows: Tensor, height: int) -> Tensor:
    """Where each row starts, from the row of every entry.

    >>> starts_of(torch.tensor([1, 0, 1]), height=2)
    tensor([0, 1, 3])
    """
    starts = torch.zeros(height + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=height), 0, out=starts[1:])
    return starts


def transpose(starts: Tensor, columns: Tensor, width: int) -> Transposition:
    """Entries sorted by column; those of one column stay in the order of their rows."""
    order = torch.argsort(columns, stable=True)
    rows = rows_of(starts).to(torch.int32).index_select(0, order)
    return Transposition(starts_of(columns, width), rows, order)
