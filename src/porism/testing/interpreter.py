"""Does Triton's interpreter work with the NumPy that is installed? A loop and a sum, with nothing of ours in it.

triton 3.6 turns an array of one element into a number in a way that NumPy refuses from 2.4 on, and an install without
pins may bring that pair.
"""

import warnings
from functools import cache

import numpy
import torch
import triton
import triton.language as tl


@triton.jit
def _sum_of_first(out, n):  # type: ignore[no-untyped-def]
    total = tl.zeros((16,), tl.float32)
    for i in range(n):
        total += i
    tl.store(out, tl.sum(total, 0))


@cache
def fault() -> str | None:
    """Why no kernel runs in the interpreter here, in a few words, or None where kernels do.

    Triton must have been imported with TRITON_INTERPRET=1.
    """
    out = torch.zeros(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _sum_of_first[(1,)](out, 4)
    except Exception as error:  # whatever it is, it is between the two packages
        words = str(error).strip().splitlines() or [type(error).__name__]
        return f"Triton {triton.__version__} does not interpret kernels with NumPy {numpy.__version__}: {words[-1]}"
    return None if out.item() == 16 * 6 else f"Triton {triton.__version__} interprets a sum wrongly"
