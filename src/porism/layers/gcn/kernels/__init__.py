"""The product of a sparse matrix with dense rows: every row of the output is a weighted sum of rows of x.

One operator that torch knows by name, so that the compiler sees it whole and its operations are counted. It runs the
fastest kernel that is installed: numba's on a CPU, Triton's on a GPU, else torch's own. It checks all its operands, so
that no kernel reads beyond the arrays, whoever calls it.
"""

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

import porism.layers.kernels as kernels
from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import Csr, check_arrays, check_pattern
from porism.layers.operands import FLOATS
from porism.layers.operators import register

SUMMED = (torch.float32, torch.float64)
"""What sums are taken in."""


def product(matrix: Csr, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """matrix x + bias, the bias added to every row. It has no gradient: `multiply` of functional.py has.

    >>> matrix = Csr(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]).int(), torch.tensor([5.0, 6.0, 7.0]))
    >>> product(matrix, torch.eye(3))
    tensor([[0., 0., 5.],
            [6., 7., 0.]])

    Sums are of the values' type, float32 at least, the output of x's. A row is summed by one thread from its first
    entry to its last, so that the bits are the same on every run.
    """
    if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
        raise ShapeError(
            "gcn: x or bias requires a gradient, and this product has none. "
            "Use propagate from porism.layers.gcn.functional, or give x.detach()."
        )
    output: Tensor = OPERATOR(matrix.starts, matrix.columns, matrix.values, x, bias)
    return output


def _product(
    starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, bias: Tensor | None = None, *_transposed: Any
) -> Tensor:
    _check(starts, columns, values, x, bias)
    # Kernels read memory, which of a negated view has the other signs.
    x, bias = x.resolve_neg(), None if bias is None else bias.resolve_neg()
    matrix = Csr(starts, columns, values if values.dtype in SUMMED else values.float())
    if x.device.type in kernels.DEVICES and _installed("triton"):
        from porism.layers.gcn.kernels import triton

        return triton.product(matrix, x, bias)
    by_kernel = _by_torch
    if x.device.type == "cpu" and _installed("numba"):
        from porism.layers.gcn.kernels import numba

        by_kernel = numba.product
    exact = matrix.values.dtype
    if x.dtype is exact:
        return by_kernel(matrix, x, bias)
    return by_kernel(matrix, x.to(exact), None if bias is None else bias.to(exact)).to(x.dtype)


def _by_torch(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """On every device, and slower."""
    check_pattern(matrix.starts, matrix.columns, x.shape[0])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        size = matrix.height, x.shape[0]
        # Some versions of torch warn of sparse tensors that they make themselves inside the product.
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        csr = torch.sparse_csr_tensor(matrix.starts, matrix.columns.long(), matrix.values, size, check_invariants=False)
        # Torch has a product for CPUs alone that uses all cores, which the general one does not.
        output: Tensor = torch.sparse.mm(csr, x, "sum") if x.device.type == "cpu" else torch.sparse.mm(csr, x)
    return output if bias is None else output.add_(bias)


@cache
def _installed(package: str) -> bool:
    """A package that is there may still refuse to run, beside a numpy that is too new for it for instance."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def _check(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, bias: Tensor | None) -> None:
    """Refuses operands by type, shape and device, without reading a number."""
    check_arrays(starts, columns, values)
    fit = x.dim() == 2 and x.dtype in FLOATS and x.device == values.device
    fit = fit and (x.dtype is not torch.float64 or values.dtype is torch.float64)
    if bias is not None:
        fit = fit and bias.dtype is x.dtype and bias.device == x.device
        fit = fit and bias.dim() == 1 and bias.numel() == x.size(1)
    if not fit:
        _refuse(values, x, bias)


def _refuse(values: Tensor, x: Tensor, bias: Tensor | None) -> None:
    """Raises with the first operand that does not fit."""
    for name, part, dims in (("x", x, 2), ("bias", bias, 1)):
        if part is None:
            continue
        if part.dim() != dims:
            raise ShapeError(f"gcn: {name} is {tuple(part.shape)}, expected a dense tensor of {dims} dimensions.")
        if part.dtype not in FLOATS or part.dtype != x.dtype:
            raise ShapeError(f"gcn: {name} is {part.dtype}, expected floating numbers, those of x. Convert it.")
        if part.device != values.device:
            raise ShapeError(
                f"gcn: {name} is on {part.device}, the matrix on {values.device}, expected one device. "
                f"Move it with {name}.to({str(values.device)!r})."
            )
    if x.dtype == torch.float64 != values.dtype:
        raise ShapeError(f"gcn: x is torch.float64, the matrix {values.dtype}, expected one type. Convert the matrix.")
    if bias is not None and len(bias) != x.shape[1]:
        raise ShapeError(f"gcn: bias is ({len(bias)},), expected ({x.shape[1]},), one for each column of x.")


def _shape(
    starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, bias: Tensor | None = None, *_transposed: Any
) -> Tensor:
    _check(starts, columns, values, x, bias)
    return x.new_empty(starts.shape[0] - 1, x.shape[1])


def _flops(_starts: Any, columns: Any, _values: Any, x: Any, *_: Any, **__: Any) -> int:
    """A multiply-add for each stored entry and column."""
    return int(2 * columns[0] * x[1])


OPERATOR = register(
    "csr_product(Tensor starts, Tensor columns, Tensor values, Tensor x, Tensor? bias=None, "
    "Tensor? transposed_starts=None, Tensor? transposed_columns=None, Tensor? transposed_values=None) -> Tensor",
    _product,
    _shape,
    _flops,
    is_opaque=True,
)
"""The transposed matrix is for the gradient: functional.py."""
