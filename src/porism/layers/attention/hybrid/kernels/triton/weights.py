"""The weight of a pair in a kernel, near and far, and which of both a pair is.

Here s is q . k as it comes, and the scale goes in with the next multiplication, in float32: near logits may be large,
and a scaled query that is rounded once more would move them.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1e38)
"""A peak before any key was seen: below every logit, and a number still when it is multiplied by LOG2_E."""


@triton.jit
def exact(s: tl.tensor, log: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """exp(scale s) / 2^log."""
    return tl.exp2(s * (scale * LOG2_E) - log)


@triton.jit
def series(s: tl.tensor, factor: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """factor (1 + s + s^2 / 2), s times the scale."""
    return factor * (1.0 + s * (scale + s * (0.5 * scale * scale)))


@triton.jit
def slope(s: tl.tensor, factor: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """factor (1 + s), s times the scale: the slope of the series. That of exp is exp."""
    return factor * (1.0 + s * scale)
