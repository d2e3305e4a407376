"""Sparse matrices of scipy, checked before scipy's own kernels read them: they trust their arrays too."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.errors import ShapeError


class Entries(NamedTuple):
    """A matrix by rows, columns rising in each: starts (N + 1) and columns of int64, values (stored) of float64."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


def read(matrix: Any) -> Entries:
    """The entries of a sparse matrix or array that are not zero, those that are there twice added up.

    >>> read(scipy.sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))).values
    array([3.])

    It is what the matrix says: a zero that is stored, as `setdiag(0)` leaves it, is a zero like any other.
    """
    if not hasattr(matrix, "tocsr") or len(matrix.shape) != 2:
        raise ShapeError(
            f"gcn: the matrix is a {type(matrix).__name__}, expected a sparse matrix of scipy in two dimensions. "
            "Use scipy.sparse.csr_array(matrix)."
        )
    if matrix.dtype.kind not in "biuf":
        raise ShapeError(
            f"gcn: the matrix is of {matrix.dtype}, expected real numbers. Convert it with .astype(float)."
        )
    try:
        copy = matrix.copy()
        _check(copy)
        # The sums of small whole numbers could run over.
        csr = copy.astype(np.float64).tocsr()
        _check(csr)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ShapeError(f"gcn: the matrix is damaged: {reason.rstrip('.')}. Make a new one.") from error
    # What the matrix remembers of its own order may be out of date.
    csr.has_sorted_indices = csr.has_canonical_format = False
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return Entries(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data)


def _check(matrix: Any) -> None:
    if matrix.format == "coo":
        for axis, (indices, size) in enumerate(zip((matrix.row, matrix.col), matrix.shape, strict=True)):
            if indices.ndim != 1 or len(indices) != len(matrix.data):
                raise ValueError(f"{len(indices)} indices of axis {axis} and {len(matrix.data)} values")
            if len(indices) and not (indices.min() >= 0 and indices.max() < size):
                raise ValueError(f"axis {axis} has indices from {indices.min()} to {indices.max()} and size {size}")
    elif hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
