"""Sparse features of nodes, such as bags of words."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from porism.errors import ShapeError
from porism.layers.dropout import dropout
from porism.layers.gcn.adjacency import scipy
from porism.layers.gcn.adjacency.csr import (
    Csr,
    Transposition,
    check_arrays,
    check_pattern,
    rows_of,
    starts_of,
    transpose,
    versions,
)
from porism.layers.gcn.adjacency.modes import check_numbers, outside_modes
from porism.layers.operands import check_dropout, check_operands, check_whole, is_plain


class SparseFeatures:
    """A matrix of features (N, D) that stores what is not zero.

    >>> x = SparseFeatures.from_dense(torch.tensor([[0.0, 2.0], [3.0, 1.0]]))
    >>> x
    SparseFeatures(2, 2, stored=3)
    >>> x.row_normalised().to_dense()
    tensor([[0.0000, 1.0000],
            [0.7500, 0.2500]])

    A graph convolution takes it in place of a dense tensor: x W and its gradient x^T dy cost what is stored. Sparse
    features get no gradient themselves. `transposition` is the result of `transpose`, where it is known already.
    """

    def __init__(self, there: Csr, width: int, transposition: Transposition | None = None) -> None:
        check_whole("gcn", "width", width, least=0)
        check_arrays(*there)
        check_pattern(there.starts, there.columns, width)
        if transposition is None:
            transposition = outside_modes(transpose, there.starts, there.columns, width)
        else:
            _check_transposition(transposition, there, width)
        self.there = there
        self.width = width
        self._transposition = transposition
        self._versions = self._pattern_versions()

    @classmethod
    def from_dense(cls, x: Tensor) -> "SparseFeatures":
        check_operands("gcn", x=x)
        if x.dim() != 2:
            raise ShapeError(f"gcn: features are {tuple(x.shape)}, expected (N, D). Use x.view(-1, D).")
        if x.requires_grad or unpack_dual(x).tangent is not None:
            raise ShapeError(
                "gcn: x requires a gradient, which sparse features do not get. "
                "Give x to the layer as it is, or x.detach() here."
            )
        check_numbers("x", x)
        return cls(outside_modes(_stored, x), x.shape[1])

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype = torch.float32) -> "SparseFeatures":
        """A sparse matrix or array of scipy, (N, D)."""
        starts, columns, values = (torch.from_numpy(part) for part in scipy.read(matrix))
        check_whole("gcn", "width", matrix.shape[1], least=0)
        return cls(Csr(starts, columns.to(torch.int32), values.to(dtype)), matrix.shape[1])

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

    def check(self) -> None:
        """Refuses features whose starts or columns were changed in place since: their transposed were not."""
        now = self._pattern_versions()
        if now is not None and self._versions is not None and self._versions != now:
            raise ShapeError(
                "gcn: starts or columns of sparse features were changed in place. "
                "Make new ones; with_values gives other values at the same positions."
            )

    def dropout(self, p: float, training: bool = True) -> "SparseFeatures":
        """Each entry dropped with probability p, the others divided by 1 - p: zeros are zeros, dropped or not."""
        check_dropout("gcn", "dropout", p)
        return self.with_values(dropout(self.there.values, 1 - p)) if training and p else self

    def row_normalised(self) -> "SparseFeatures":
        """Each row divided by its sum; one that sums to zero stays."""
        rows = rows_of(self.there.starts)
        values = self.there.values.to(torch.promote_types(self.dtype, torch.float32))
        sums = values.new_zeros(self.there.height).index_add_(0, rows, values)
        return self.with_values((values / torch.where(sums == 0, 1, sums)[rows]).to(self.dtype))

    def with_values(self, values: Tensor) -> "SparseFeatures":
        """Other values at the same positions."""
        there = self.there._replace(values=values)
        check_arrays(*there)
        return self._sharing(there, self._transposition)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "SparseFeatures":
        return outside_modes(self._to, device or self.device, dtype or self.dtype)

    def to_dense(self) -> Tensor:
        return self.there.to_dense(self.width)

    def _to(self, device: torch.device | str, dtype: torch.dtype) -> "SparseFeatures":
        there = self.there._replace(values=self.there.values.to(dtype)).to(device)
        check_arrays(*there)
        return self._sharing(there, Transposition(*(part.to(device) for part in self._transposition)))

    def _sharing(self, there: Csr, transposition: Transposition) -> "SparseFeatures":
        """Features with a pattern that was checked when these were made."""
        self.check()
        other = SparseFeatures.__new__(SparseFeatures)
        other.there, other.width, other._transposition = there, self.width, transposition
        other._versions = other._pattern_versions()
        return other

    def _pattern_versions(self) -> tuple[int, ...] | None:
        """None in compiled code, whose guards have the arrays themselves."""
        if not is_plain(self.there.starts):
            return None
        return versions(self.there.starts, self.there.columns, *self._transposition)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy counts its changes from the beginning, and what comes from a file is checked.
        return SparseFeatures, (self.there, self.width, self._transposition)

    def __repr__(self) -> str:
        return f"SparseFeatures({self.there.height}, {self.width}, stored={self.there.stored})"


def _stored(x: Tensor) -> Csr:
    rows, columns = x.nonzero(as_tuple=True)
    return Csr(starts_of(rows, len(x)), columns.to(torch.int32), x.detach()[rows, columns])


def _check_transposition(transposition: Transposition, there: Csr, width: int) -> None:
    """Refuses what cannot be the transposed of a matrix by its sizes and numbers."""
    starts, columns, order = transposition
    check_arrays(starts, columns)
    check_pattern(starts, columns, there.height)
    if len(starts) != width + 1 or len(columns) != there.stored:
        raise ShapeError(
            f"gcn: the transposed has {len(starts) - 1} rows and {len(columns)} entries, expected {width} and "
            f"{there.stored}. Leave it out, and it is computed."
        )
    if order.dtype != torch.int64 or tuple(order.shape) != (there.stored,) or order.device != there.values.device:
        raise ShapeError(
            f"gcn: order is {tuple(order.shape)} of {order.dtype} on {order.device}, expected ({there.stored},) of "
            f"torch.int64 on {there.values.device}. Leave the transposed out, and it is computed."
        )
