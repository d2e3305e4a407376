"""The series of the exponential, cut off: 1 + s + s^2 / 2! + ... + s^K / K!."""

import torch
from torch import Tensor

from porism.errors import ShapeError


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


def check_order(order: int, allow_odd: bool, layer: str = "taylor") -> None:
    """A whole number from 1 on; odd only where that was asked for."""
    if isinstance(order, bool) or not isinstance(order, int) or order < 1:
        raise ShapeError(f"{layer}: order is {order!r}. Give an even whole number from 2 on.")
    if order % 2 and not allow_odd:
        choice = f"{order - 1} or {order + 1}" if order > 1 else "2"
        raise ShapeError(
            f"{layer}: order {order} is odd, and an odd series falls below zero for low logits, so weights can turn "
            f"negative and their sum can vanish. Choose {choice}, or set allow_odd=True."
        )
