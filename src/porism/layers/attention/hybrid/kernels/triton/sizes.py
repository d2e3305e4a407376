"""How large the pieces are that a kernel works on: the series' table, and where the hybrid departs from it.

Left to itself the compiler spends some forty registers more on near pairs. Narrow heads in bfloat16 do without at
hardly any spill, so that as many programs of four warps share the 65,536 of an SM as with the series.
"""

from functools import cache

import torch

from porism.layers.attention.taylor.kernels.triton.sizes import FOUR_PROGRAMS, Sizes
from porism.layers.attention.taylor.kernels.triton.sizes import sizes as of_series


@cache
def sizes(D: int, H: int, dtype: torch.dtype) -> Sizes:
    """The launches for queries and keys of width D and values of width H, multiplied as numbers of a type."""
    found = of_series(D, H, dtype)
    if dtype != torch.bfloat16 or D > 16 or H > 64:
        return found
    return found._replace(
        answer=found.answer._replace(registers=FOUR_PROGRAMS),
        reach_queries=found.reach_queries._replace(registers=FOUR_PROGRAMS),
    )
