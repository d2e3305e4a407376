"""The series of the exponential, cut off: 1 + s + s^2 / 2! + ... + s^K / K!."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.operands import check_whole


def exponential(s: Tensor, order: int) -> Tensor:
    """The series of exp(s) up to s^order / order!, element by element. Its slope is the series of one order less.

    >>> exponential(torch.tensor([0.0, 1.0, 2.0]), order=2)
    tensor([1.0000, 2.5000, 5.0000])

    Horner's rule: 1 + s/1 (1 + s/2 (1 + s/3 (...))), one fused step an order.
    """
    one = s.new_ones(())
    total = one.expand_as(s)
    for power in range(order, 0, -1):
        total = torch.addcmul(one, s, total, value=1 / power)
    return total


MOST_ORDER = 170
"""The factorial of 171 is beyond float64."""


def check_order(order: int, allow_odd: bool, layer: str = "taylor") -> None:
    """A whole number from 1 on; odd only where that was asked for."""
    check_whole(layer, "order", order, 1, MOST_ORDER)
    if not isinstance(allow_odd, bool):
        raise ShapeError(f"{layer}: allow_odd is {allow_odd!r}, wanted True or False.")
    if order % 2 and not allow_odd:
        choice = f"{order - 1} or {order + 1}" if order > 1 else "2"
        raise ShapeError(
            f"{layer}: order {order} is odd, and an odd series falls below zero for low logits, so weights can turn "
            f"negative and their sum can vanish. Choose {choice}, or set allow_odd=True."
        )
