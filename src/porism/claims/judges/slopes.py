"""How a count grows: its exponent along one size, far out."""

import math
from collections.abc import Callable, Sequence


def slope(count: Callable[[int], float], sizes: Sequence[int]) -> float:
    """The exponent between the two largest sizes: the slope of log count over log size.

    >>> round(slope(lambda n: 3 * n**2 + 5 * n, [10, 10_000, 1_000_000]), 3)
    2.0
    """
    before, last = sizes[-2:]
    return math.log(count(last) / count(before)) / math.log(last / before)
