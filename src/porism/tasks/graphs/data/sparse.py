"""Sparse matrices from files and scipy, checked before any kernel reads them.

Row i has its columns and values from indptr[i] to indptr[i + 1]. Kernels trust these numbers: one that is wrong would
make them read memory that is not theirs.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError, one_line, shown
from porism.layers.gcn.adjacency.csr import Csr

MOST_FEATURES = 2**22
"""Columns that features may have, most of them empty perhaps. The weights of more would take gigabytes."""


MOST_COLUMNS = 2**31 - 1
"""Columns are numbers of 32 bits."""


class SparseMatrix(NamedTuple):
    """The parts of a csr_matrix that passed `sparse_matrix`: starts and columns of int64."""

    values: NDArray[Any]
    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    shape: tuple[int, int]

    def csr(self) -> Csr:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
            values = np.ascontiguousarray(self.values, dtype=np.float32)
        return Csr(torch.from_numpy(self.starts), torch.from_numpy(self.columns).int(), torch.from_numpy(values))


def sparse_matrix(
    where: str,
    values: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    shape: Any,
    *,
    prefix: str = "",
    most_columns: int = MOST_FEATURES,
) -> SparseMatrix:
    """The matrix of these parts, or one line that says what is wrong with them.

    >>> sparse_matrix("a.npz", np.ones(2), np.array([0, 5]), np.array([0, 1, 2]), (2, 3), prefix="attr_")
    Traceback (most recent call last):
    porism.errors.DataError: a.npz: attr_indices run from 0 to 5, and 3 columns are numbered 0 to 2.
    """
    height, width = check_parts(where, values, columns, starts, shape, prefix=prefix, most_columns=most_columns)
    return SparseMatrix(values, columns.astype(np.int64), starts.astype(np.int64), (height, width))


def check_parts(
    where: str,
    values: NDArray[Any],
    columns: NDArray[Any],
    starts: NDArray[Any],
    shape: Any,
    *,
    prefix: str,
    most_columns: int,
) -> tuple[int, int]:
    """Refuses parts that are no matrix, and copies none of them: they may be mapped. -> height and width"""
    height, width = _height_and_width(where, shape, prefix, most_columns)
    for name, array, kinds in (("data", values, "fiub"), ("indices", columns, "iu"), ("indptr", starts, "iu")):
        if array.ndim != 1 or array.dtype.kind not in kinds:
            kind = "numbers" if name == "data" else "whole numbers"
            raise DataError(f"{where}: {prefix}{name} is {array.shape} of {array.dtype}, expected one row of {kind}.")
    if len(values) != len(columns):
        raise DataError(f"{where}: {len(values)} {prefix}data and {len(columns)} {prefix}indices, expected as many.")
    if len(starts) != height + 1:
        raise DataError(f"{where}: {prefix}indptr has {len(starts)} numbers, expected {height + 1} for {height} rows.")
    # Compared before they are converted: the differences of unsigned numbers never fall.
    if starts[0] != 0 or int(starts[-1]) != len(columns) or (starts[1:] < starts[:-1]).any():
        raise DataError(
            f"{where}: {prefix}indptr does not cut {len(columns)} entries into {height} rows: it runs from "
            f"{starts[0]} to {starts[-1]}, expected from 0 to {len(columns)} and never falling."
        )
    if len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < width:
        raise DataError(
            f"{where}: {prefix}indices run from {columns.min()} to {columns.max()}, and {width} columns are numbered "
            f"0 to {width - 1}."
        )
    return height, width


def checked_scipy(matrix: Any, where: str) -> Any:
    """A sparse matrix of scipy, once its parts are seen to fit: scipy takes them as they come.

    `csr` holds its rows and `csc` its columns as files do. Other formats check themselves.
    """
    if getattr(matrix, "format", "") in ("csr", "csc"):
        shape = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        sparse_matrix(where, matrix.data, matrix.indices, matrix.indptr, shape, most_columns=MOST_COLUMNS)
    elif hasattr(matrix, "check_format"):
        try:
            matrix.check_format()
        except ValueError as error:
            raise DataError(f"{where}: a sparse matrix whose parts do not fit ({one_line(error)}).") from None
    return matrix


def _height_and_width(where: str, shape: Any, prefix: str, most_columns: int) -> tuple[int, int]:
    sizes = np.asarray(shape)
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu":
        raise DataError(f"{where}: {prefix}shape is {shown(shape)}, expected two whole numbers, rows and columns.")
    height, width = (int(size) for size in sizes)
    if height < 1 or not 1 <= width <= most_columns:
        raise DataError(
            f"{where}: {prefix}shape is {height} x {width}, expected rows, and 1 to {most_columns:,} columns."
        )
    return height, width
