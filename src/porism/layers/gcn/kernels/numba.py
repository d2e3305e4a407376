"""The sparse product on all cores of a CPU.

The rows of x that a sum needs lie anywhere in memory, and waiting for them takes most of the time. The columns to come
are known, so that the rows of the next few entries are prefetched.
"""

from threading import Lock
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import Csr, check_pattern

AHEAD = 6
"""Entries between the prefetch of a row and its use: enough to hide the latency, few enough to stay in the cache."""

LINE = 64
"""Bytes that memory hands over at a time."""

NEAR = 2**20
"""Bytes that stay in a core's own cache, where no prefetch is needed."""

WORTH_A_THREAD = 2**21
"""Multiply-adds that take a millisecond or more: for about as long torch's own threads hold on to their cores."""

# Where numba finds no OpenMP, its own threads serve one caller at a time.
_ONE_AT_A_TIME = Lock()


def product(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """matrix x + bias; x and the bias have the type of the values, float32 or float64.

    The pattern is read before every product, at one or two percent of its time: whatever has become of the arrays since
    they were made, the kernel reads nothing beyond x.
    """
    x, output = x.contiguous(), x.new_empty(matrix.height, x.shape[1])
    starts, columns, values, features, summed = (_array(part) for part in (*matrix, x, output))
    first = np.zeros(x.shape[1], summed.dtype) if bias is None else _array(bias.contiguous())
    most = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    threads = max(1, min(most, matrix.stored * x.shape[1] // WORTH_A_THREAD))
    prefetched = x.shape[1] * x.itemsize if x.nbytes > NEAR else 0
    operands = starts, columns, values, features, first, summed, x.data_ptr(), prefetched
    is_readable = _add_rows_alone(*operands) if threads == 1 else _add_rows_by_threads(operands, threads)
    if not is_readable:
        check_pattern(matrix.starts, matrix.columns, x.shape[0])
        raise ShapeError("gcn: the matrix changes while it is read. Make a new one.")
    return output


def _add_rows_by_threads(operands: tuple[Any, ...], threads: int) -> bool:
    with _ONE_AT_A_TIME:
        if numba.get_num_threads() != threads:
            numba.set_num_threads(threads)
        return bool(_add_rows(*operands, threads))


def _array(part: Tensor) -> Any:
    """As a numpy array, which torch refuses of a tensor that autograd records."""
    return part.detach().numpy() if part.requires_grad else part.numpy()


@intrinsic
def _prefetch(_context: Any, address: Any) -> Any:
    """Loads the line of memory at an address into the cache, without waiting for it."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # To read, into the nearest cache, data.
        settings = [ir.Constant(number, setting) for setting in (0, 3, 1)]
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), *settings])
        return context.get_dummy_value()

    return types.void(address), generate


@numba.njit(nogil=True, cache=True)
def _is_pattern(starts: Any, columns: Any, rows: int) -> bool:
    """Whether starts lead from 0 to the number of columns and never fall, and all columns are rows of x."""
    # Neither loop has a branch, so that several numbers are compared at a time.
    rising = True
    for i in range(len(starts) - 1):
        rising &= starts[i] <= starts[i + 1]
    # Unsigned, a column below zero is the largest of all.
    largest = np.uint32(0)
    for entry in range(len(columns)):
        largest = max(largest, np.uint32(columns[entry]))
    complete = starts[0] == 0 and starts[-1] == len(columns)
    return bool(complete and rising and (len(columns) == 0 or largest < rows))


# A product and a sum may become one operation. Nothing else is loosened: a NaN stays one, and sums keep their order.
@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _add_part(
    starts: Any, columns: Any, values: Any, x: Any, first: Any, output: Any, address: int, prefetched: int, span: Any
) -> None:
    """The rows from the first of `span` to the second."""
    width, stored = output.shape[1], columns.shape[0]
    for i in range(span[0], span[1]):
        row = output[i]
        for h in range(width):
            row[h] = first[h]
        for entry in range(starts[i], starts[i + 1]):
            later = address + prefetched * np.int64(columns[min(entry + AHEAD, stored - 1)])
            for line in range(0, prefetched, LINE):
                _prefetch(later + line)
            # Unsigned, since numba would check whether a signed one counts from the end.
            value, column = values[entry], np.uint64(columns[entry])
            for h in range(width):
                row[h] += value * x[column, h]


# Whether the matrix could be read is the result; if not, the output is left as it was.
@numba.njit(nogil=True, cache=True)
def _add_rows_alone(
    starts: Any, columns: Any, values: Any, x: Any, first: Any, output: Any, address: int, prefetched: int
) -> bool:
    """By one thread, without numba's scheduler, which takes longer than a small product."""
    if not _is_pattern(starts, columns, x.shape[0]):
        return False
    _add_part(starts, columns, values, x, first, output, address, prefetched, (0, output.shape[0]))
    return True


@numba.njit(parallel=True, nogil=True, cache=True)
def _add_rows(
    starts: Any, columns: Any, values: Any, x: Any, first: Any, output: Any, address: int, prefetched: int, parts: int
) -> bool:
    """By several threads: each part has as many entries as any other, however many rows those are."""
    if not _is_pattern(starts, columns, x.shape[0]):
        return False
    height, stored = output.shape[0], columns.shape[0]
    for part in numba.prange(parts):
        start = np.searchsorted(starts[:height], stored * part // parts) if part else 0
        end = np.searchsorted(starts[:height], stored * (part + 1) // parts) if part + 1 < parts else height
        _add_part(starts, columns, values, x, first, output, address, prefetched, (start, end))
    return True
