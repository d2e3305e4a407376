"""The sparse product on a GPU: a program owns a row of the answer and adds the rows of x it asks for, a few at a time.

No program waits for another and the host waits for none, so that a captured graph can hold it.
"""

import triton
import triton.language as tl
from torch import Tensor

from porism.layers.gcn.csr import Csr

ENTRIES = 16
"""Stored entries that a program takes at a time: their rows are on their way together."""
WIDEST = 128
"""Columns that a program owns at most."""


def product(matrix: Csr, x: Tensor, bias: Tensor | None) -> Tensor:
    """matrix x + bias, summed in the type of the values."""
    x = x.contiguous()
    answer = x.new_empty(matrix.height, x.shape[1])
    width = min(WIDEST, triton.next_power_of_2(x.shape[1]))
    grid = matrix.height, triton.cdiv(x.shape[1], width)
    _add_rows[grid](
        *matrix, x, x if bias is None else bias, answer, x.shape[1],
        HAS_BIAS=bias is not None, ENTRIES=ENTRIES, WIDTH=width, num_warps=1 if width <= 32 else 4,
    )  # fmt: skip
    return answer


@triton.jit
def _add_rows(
    starts: tl.tensor, columns: tl.tensor, values: tl.tensor, x: tl.tensor, bias: tl.tensor, answer: tl.tensor,
    width: tl.tensor, HAS_BIAS: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = place < width
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros([WIDTH], dtype=values.dtype.element_ty)
    if HAS_BIAS:
        total += tl.load(bias + place, mask=inside, other=0.0).to(total.dtype)
    for start in range(first, last, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        there = entry < last
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=there, other=0.0)
        added = tl.load(x + column[:, None] * width + place[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(value[:, None] * added.to(total.dtype), axis=0)
    tl.store(answer + row * width + place, total.to(answer.dtype.element_ty), mask=inside)
