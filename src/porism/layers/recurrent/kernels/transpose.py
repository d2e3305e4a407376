"""The recurrent matrix as the products of a loop over time read it."""

import platform

from torch import Tensor

COPIED = platform.machine() == "aarch64"
"""On ARM torch takes up to 0.7 ms longer for a product with a transposed view, from 9 rows on; x86 reads it as fast."""
FEWEST_ROWS = 9


def transposed(weight: Tensor, steps: int, rows: int) -> Tensor:
    """weight.mT, of memory of its own where many steps of many rows are faster with it."""
    return weight.mT.contiguous() if COPIED and weight.is_cpu and steps > 1 and rows >= FEWEST_ROWS else weight.mT
