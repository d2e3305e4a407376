"""Features most of which are zero, kept as they are: words in a document, for instance."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.dropout import dropout
from porism.layers.gcn.csr import Csr, Transposition, rows_of, starts_of, transpose


class SparseFeatures:
    """A matrix of features (N, D) that stores what is not zero.

    >>> x = SparseFeatures.from_dense(torch.tensor([[0.0, 2.0], [3.0, 1.0]]))
    >>> x
    SparseFeatures(2, 2, stored=3)
    >>> x.row_normalised().to_dense()
    tensor([[0.0000, 1.0000],
            [0.7500, 0.2500]])

    It goes into a graph convolution where a dense tensor would: x W and its gradient x^T dy touch stored entries only.
    """

    def __init__(self, there: Csr, width: int, transposition: Transposition | None = None) -> None:
        self.there = there
        self.width = width
        self._transposition = transpose(there.starts, there.columns, width) if transposition is None else transposition

    @classmethod
    def from_dense(cls, x: Tensor) -> "SparseFeatures":
        if x.dim() != 2 or not x.dtype.is_floating_point:
            raise ShapeError(
                f"gcn: features are {tuple(x.shape)} of {x.dtype}, wanted (N, D) of numbers. Use x.float()."
            )
        rows, columns = x.nonzero(as_tuple=True)
        there = Csr(starts_of(rows, len(x)), columns.to(torch.int32), x.detach()[rows, columns])
        return cls(there, x.shape[1])

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype = torch.float32) -> "SparseFeatures":
        """A sparse matrix or array of scipy, (N, D)."""
        csr = matrix.tocsr(copy=True)
        csr.sum_duplicates()
        starts, columns, values = (torch.as_tensor(part) for part in (csr.indptr, csr.indices, csr.data))
        return cls(Csr(starts.long(), columns.to(torch.int32), values.to(dtype)), matrix.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.there.height, self.width

    @property
    def dtype(self) -> torch.dtype:
        return self.there.values.dtype

    @property
    def device(self) -> torch.device:
        return self.there.values.device

    @property
    def back(self) -> Csr:
        """The transposed matrix, (D, N)."""
        return self._transposition.of(self.there.values)

    def dropout(self, p: float, training: bool = True) -> "SparseFeatures":
        """Each entry dropped with probability p, the others divided by 1 - p: zeros are zeros, dropped or not."""
        if not 0 <= p < 1:
            raise ShapeError(f"gcn: dropout is {p!r}. Give the probability of dropping, from 0 to below 1.")
        return self.with_values(dropout(self.there.values, 1 - p)) if training and p else self

    def row_normalised(self) -> "SparseFeatures":
        """Each row divided by its sum; one that sums to zero stays."""
        values, rows = self.there.values, rows_of(self.there.starts)
        sums = values.new_zeros(self.there.height).index_add_(0, rows, values)
        return self.with_values(values / torch.where(sums == 0, 1, sums)[rows])

    def with_values(self, values: Tensor) -> "SparseFeatures":
        """Other numbers in the same places."""
        return SparseFeatures(self.there._replace(values=values), self.width, self._transposition)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SparseFeatures":
        there = self.there._replace(values=self.there.values.to(dtype=dtype or self.dtype))
        place = device or self.device
        moved = Transposition(*(part.to(place) for part in self._transposition))
        return SparseFeatures(there.to(place), self.width, moved)

    def to_dense(self) -> Tensor:
        return self.there.to_dense(self.width)

    def __repr__(self) -> str:
        return f"SparseFeatures({self.there.height}, {self.width}, stored={self.there.stored})"
