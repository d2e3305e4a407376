"""A sparse matrix row by row: where each row starts, and the columns and values it stores."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.modes import outside_modes
from porism.layers.operands import FLOATS, has_values, is_plain


class Csr(NamedTuple):
    """The stored entries of a matrix in the CSR format, row after row.

    >>> matrix = Csr(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]).int(), torch.tensor([5.0, 6.0, 7.0]))
    >>> matrix.to_dense(width=3)
    tensor([[0., 0., 5.],
            [6., 7., 0.]])

    Whoever reads the arrays checks them first: `check_arrays` and `check_pattern`.

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
        check_arrays(*self)
        check_pattern(self.starts, self.columns, width)
        dense = self.values.new_zeros(self.height, width)
        return dense.index_put_((rows_of(self.starts), self.columns), self.values, accumulate=True)


class Transposition(NamedTuple):
    """The pattern of the transposed matrix, and the index of each of its values in the matrix."""

    starts: Tensor
    columns: Tensor
    order: Tensor

    def of(self, values: Tensor) -> Csr:
        return Csr(self.starts, self.columns, values.index_select(0, self.order))


def check_arrays(starts: Tensor, columns: Tensor, values: Tensor | None = None) -> None:
    """Refuses arrays that cannot be those of a matrix by their dtypes, sizes, layouts and devices. Reads no number."""
    try:
        device = starts.device
        fit = starts.dtype is torch.int64 and columns.dtype is torch.int32 and columns.device == device
        fit = fit and starts.dim() == columns.dim() == 1 and starts.layout is columns.layout is torch.strided
        fit = fit and starts.numel() > 0
        if values is not None:
            fit = fit and values.dtype in FLOATS and values.device == device and values.layout is torch.strided
            fit = fit and values.dim() == 1 and values.numel() == columns.numel() and not values.requires_grad
    except AttributeError:
        fit = False
    if not fit:
        _refuse_arrays(starts, columns, values)


def _refuse_arrays(starts: Tensor, columns: Tensor, values: Tensor | None) -> None:
    """Raises with the first array that does not fit."""
    for name, part, dtypes in (
        ("starts", starts, (torch.int64,)),
        ("columns", columns, (torch.int32,)),
        ("values", values, FLOATS),
    ):
        if part is None:
            continue
        if not isinstance(part, Tensor) or part.layout is not torch.strided or part.dim() != 1:
            raise ShapeError(
                f"gcn: {name} are {_described(part)}, expected a dense tensor of one dimension. Reshape it."
            )
        if part.dtype not in dtypes:
            kinds = " or ".join(str(dtype) for dtype in dtypes)
            raise ShapeError(
                f"gcn: {name} are {part.dtype}, expected {kinds}. Convert them with {name}.to({dtypes[0]})."
            )
        if part.device != starts.device:
            raise ShapeError(
                f"gcn: {name} are on {part.device}, starts on {starts.device}, expected one device. "
                f"Move them with {name}.to({str(starts.device)!r})."
            )
    if len(starts) == 0:
        raise ShapeError("gcn: starts are empty, expected one for each row, and the number of entries at the end.")
    if values is not None and len(values) != len(columns):
        raise ShapeError(
            f"gcn: {len(columns)} columns and {len(values)} values, expected as many. Give each its column."
        )
    if values is not None and values.requires_grad:
        raise ShapeError(
            "gcn: values require a gradient, which sparse matrices do not get. "
            "Give values.detach(), or a dense tensor to the layer."
        )


def check_pattern(starts: Tensor, columns: Tensor, width: int) -> None:
    """Refuses starts that do not lead from 0 to the number of entries, and columns that are not from 0 to width - 1.

    On a CPU they are checked now. On a GPU the check runs with the kernels, without a synchronization. In compiled code
    the kernels check for themselves.
    """
    if has_values(starts) and has_values(columns):
        outside_modes(_check_numbers, starts, columns, width)
    elif starts.is_cuda and is_plain(starts) and is_plain(columns):
        rising = (starts[0] == 0) & (starts[-1] == len(columns)) & (starts[1:] >= starts[:-1]).all()
        torch._assert_async(rising, "gcn: starts of rows do not rise from 0 to the number of entries.")
        inside = ((columns >= 0) & (columns < width)).all()
        torch._assert_async(inside, f"gcn: columns are out of range, expected 0 to {width - 1}.")


def _check_numbers(starts: Tensor, columns: Tensor, width: int) -> None:
    first, last = int(starts[0]), int(starts[-1])
    falls = bool((starts[1:] < starts[:-1]).any())
    if first != 0 or last != len(columns) or falls:
        path = "fall in between" if falls else f"lead from {first} to {last}"
        raise ShapeError(
            f"gcn: starts of rows {path}, expected never falling from 0 to {len(columns)}, the number of entries. "
            "The matrix is damaged: make a new one."
        )
    if len(columns):
        least, most = (int(end) for end in columns.aminmax())
        if least < 0 or most >= width:
            raise ShapeError(
                f"gcn: columns run from {least} to {most}, and {width} are numbered 0 to {width - 1}. "
                "The matrix is damaged, or made for something wider: make a new one."
            )


def versions(*arrays: Tensor) -> tuple[int, ...]:
    """How often each array was changed in place; of those made in inference mode torch keeps no count."""
    try:
        return tuple([part._version for part in arrays])
    except RuntimeError:
        return tuple([0 if part.is_inference() else part._version for part in arrays])


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


def _described(part: Any) -> str:
    if not isinstance(part, Tensor):
        return f"a {type(part).__name__}"
    return f"{tuple(part.shape)}" if part.layout is torch.strided else str(part.layout)
