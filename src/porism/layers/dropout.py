"""Dropout whose random numbers do not cost more than the products around it."""

import torch
from torch import Tensor
from torch.nn import functional

_LEVELS = 2**16


def dropout(x: Tensor, keep: float) -> Tensor:
    """Each element of x, kept with probability `keep` and divided by it, or zero.

    >>> dropout(torch.ones(1000), keep=0.5).unique()
    tensor([0., 2.])

    A CPU draws random numbers one after the other, and torch takes one an element. Here four elements share a draw of
    64 bits, so `keep` is rounded to a multiple of 1/65536, and the division is by what it was rounded to. On other
    devices this is torch's own dropout.
    """
    if keep == 1:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, 1 - keep)
    kept_levels = min(_LEVELS - 1, max(1, round(keep * _LEVELS)))
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    levels = draws.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over -32768 ... 32767
    mask = (levels < kept_levels - _LEVELS // 2).to(x.dtype).mul_(_LEVELS / kept_levels)
    return x * mask
