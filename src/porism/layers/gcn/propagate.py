"""The sparse product: every row of the answer is a weighted sum of rows of x.

One operator that torch knows by name, so that the compiler sees it whole and its operations are counted. Behind it
stands the fastest kernel there is: numba's on a CPU, Triton's on a GPU, torch's own where they are not installed.
"""

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from porism.cost.corrections import CORRECTIONS
from porism.cost.counting import PRODUCTS
from porism.layers import kernels
from porism.layers.gcn.csr import Csr

_LIBRARY = torch.library.Library("porism", "FRAGMENT")
_LIBRARY.define("csr_product(Tensor starts, Tensor columns, Tensor values, Tensor x, Tensor? bias=None) -> Tensor")


def product(matrix: Csr, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """matrix x + bias, the bias added to every row.

    >>> matrix = Csr(torch.tensor([0, 1, 3]), torch.tensor([2, 0, 1]).int(), torch.tensor([5.0, 6.0, 7.0]))
    >>> product(matrix, torch.eye(3))
    tensor([[0., 0., 5.],
            [6., 7., 0.]])

    Sums are of the values' type, float32 or float64, the answer of x's. A row is summed by one thread from its first
    entry to its last, so that the bits are the same on every run.
    """
    answer: Tensor = torch.ops.porism.csr_product(matrix.starts, matrix.columns, matrix.values, x, bias)
    return answer


def _product(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    matrix = Csr(starts, columns, values)
    if x.device.type in kernels.DEVICES and _installed("triton"):
        from porism.layers.gcn import triton

        return triton.product(matrix, x, bias)
    exact = x.to(values.dtype)
    added = None if bias is None else bias.to(values.dtype)
    if x.device.type == "cpu" and _installed("numba"):
        from porism.layers.gcn import numba

        return numba.product(matrix, exact, added).to(x.dtype)
    return _by_torch(matrix, exact, added).to(x.dtype)


def _by_torch(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """Right everywhere, and slower."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        size = matrix.height, x.shape[0]
        csr = torch.sparse_csr_tensor(matrix.starts, matrix.columns.long(), matrix.values, size, check_invariants=False)
    # Torch has a product for CPUs alone that uses all cores, which the general one does not.
    answer: Tensor = torch.sparse.mm(csr, x, "sum") if x.device.type == "cpu" else torch.sparse.mm(csr, x)
    return answer if bias is None else answer.add_(bias)


@cache
def _installed(package: str) -> bool:
    """A package that is there may still refuse to run, beside a numpy that is too new for it for instance."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def _outline(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return x.new_empty(starts.shape[0] - 1, x.shape[1])


def _flops(_starts: Any, columns: Tensor, _values: Any, x: Tensor, *_: Any, **__: Any) -> int:
    """A multiply-add for each stored entry and column."""
    return 2 * columns.shape[0] * x.shape[1]


for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("csr_product", _product, _device)
_LIBRARY.impl("csr_product", _outline, "Meta")

# Torch's counter hands over shapes unless asked for the tensors.
_flops._get_raw = True  # type: ignore[attr-defined]
CORRECTIONS[torch.ops.porism.csr_product] = PRODUCTS[torch.ops.porism.csr_product] = _flops
