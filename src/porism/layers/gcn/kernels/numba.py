"""The sparse product on all cores of a CPU.

The rows of x that a sum needs lie anywhere in memory, and waiting for them takes most of the time. The columns to come
are known, so a few entries ahead their rows are asked for, and are there when their turn comes.
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
"""Entries between asking for a row and adding it: enough to hide the way to memory, few enough to stay in the cache."""

LINE = 64
"""Bytes that memory hands over at a time."""

NEAR = 2**20
"""Bytes that stay in a core's own cache, where nothing need be asked for."""

WORTH_A_THREAD = 2**21
"""Multiply-adds that take a millisecond or more: for about as long torch's own threads hold on to their cores."""

# Where numba finds no OpenMP its own threads serve one caller at a time.
_ONE_AT_A_TIME = Lock()


def product(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """matrix x + bias; x and the bias have the type of the values, float32 or float64.

    The pattern is read before every product, at one or two percent of its time: whatever has become of the arrays since
    they were made, the kernel reads nothing beyond x.
    """
    x, answer = x.contiguous(), x.new_empty(matrix.height, x.shape[1])
    starts, columns, values, features, summed = (_array(part) for part in (*matrix, x, answer))
    first = np.zeros(x.shape[1], summed.dtype) if bias is None else _array(bias.contiguous())
    most = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    threads = max(1, min(most, matrix.stored * x.shape[1] // WORTH_A_THREAD))
    asked = x.shape[1] * x.itemsize if x.nbytes > NEAR else 0
    with _ONE_AT_A_TIME:
        if numba.get_num_threads() != threads:
            numba.set_num_threads(threads)
        readable = _add_rows(starts, columns, values, features, first, summed, x.data_ptr(), asked, threads)
    if not readable:
        check_pattern(matrix.starts, matrix.columns, x.shape[0])
        raise ShapeError("gcn: the matrix changes while it is read. Make it anew.")
    return answer


def _array(part: Tensor) -> Any:
    """As numpy sees it. Autograd has no part in this, and numpy wants to be told so."""
    return part.detach().numpy() if part.requires_grad else part.numpy()


@intrinsic
def _ask_for(_context: Any, address: Any) -> Any:
    """Tells the CPU that what lies at an address will be read soon."""

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
@numba.njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
def _add_rows(
    starts: Any, columns: Any, values: Any, x: Any, first: Any, answer: Any, address: int, asked: int, parts: int
) -> bool:
    """Whether the matrix could be read; if not, the answer is left as it was."""
    if not _is_pattern(starts, columns, x.shape[0]):
        return False
    height, width = answer.shape
    stored = columns.shape[0]
    for part in numba.prange(parts):
        # Each part has as many entries as any other, however many rows those are.
        start = np.searchsorted(starts[:height], stored * part // parts) if part else 0
        end = np.searchsorted(starts[:height], stored * (part + 1) // parts) if part + 1 < parts else height
        for i in range(start, end):
            row = answer[i]
            for h in range(width):
                row[h] = first[h]
            for entry in range(starts[i], starts[i + 1]):
                later = address + asked * np.int64(columns[min(entry + AHEAD, stored - 1)])
                for line in range(0, asked, LINE):
                    _ask_for(later + line)
                # Unsigned, since numba would look whether a signed one counts from the end.
                value, column = values[entry], np.uint64(columns[entry])
                for h in range(width):
                    row[h] += value * x[column, h]
    return True
