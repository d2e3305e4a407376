"""The sparse product on a GPU: a program owns a row of the output and adds rows of x, a few at a time.

No program waits for another and the host waits for none, so that a CUDA graph can capture it. Hence a damaged matrix
raises no error: a row that would read beyond the arrays is NaN.
"""

import triton
import triton.language as tl
from torch import Tensor

from porism.layers.gcn.adjacency.csr import Csr

ENTRIES = 16
"""Stored entries that a program takes at a time: their rows are on their way together."""
WIDEST = 128
"""Columns that a program owns at most."""


def product(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """matrix x + bias, summed in the type of the values."""
    x, matrix = x.contiguous(), Csr(*(part.contiguous() for part in matrix))
    added = x if bias is None else bias.contiguous()
    answer = x.new_empty(matrix.height, x.shape[1])
    if not answer.numel():
        return answer
    width = min(WIDEST, triton.next_power_of_2(x.shape[1]))
    grid = matrix.height, triton.cdiv(x.shape[1], width)
    _add_rows[grid](
        *matrix, x, added, answer, x.shape[1], x.shape[0], matrix.height, matrix.stored,
        HAS_BIAS=bias is not None, ENTRIES=ENTRIES, WIDTH=width, num_warps=1 if width <= 32 else 4,
    )  # fmt: skip
    return answer


@triton.jit(do_not_specialize=["rows", "height", "stored"])
def _add_rows(
    starts: tl.tensor, columns: tl.tensor, values: tl.tensor, x: tl.tensor, bias: tl.tensor, answer: tl.tensor,
    width: tl.tensor, rows: tl.tensor, height: tl.tensor, stored: tl.tensor,
    HAS_BIAS: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = place < width
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    damaged = (first < 0) | (last > stored) | (first > last)
    damaged |= ((row == 0) & (first != 0)) | ((row == height - 1) & (last != stored))
    last = tl.where(damaged, first, last)
    beyond = tl.zeros([ENTRIES], dtype=tl.int32)
    total = tl.zeros([WIDTH], dtype=values.dtype.element_ty)
    if HAS_BIAS:
        total += tl.load(bias + place, mask=inside, other=0.0).to(total.dtype)
    for start in range(first, last, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        there = entry < last
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=there, other=0.0)
        beyond += ((column < 0) | (column >= rows)).to(tl.int32)
        there &= (column >= 0) & (column < rows)
        added = tl.load(x + column[:, None] * width + place[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(value[:, None] * added.to(total.dtype), axis=0)
    total = tl.where(damaged | (tl.sum(beyond, axis=0) > 0), float("nan"), total)
    tl.store(answer + row * width + place, total.to(answer.dtype.element_ty), mask=inside)
