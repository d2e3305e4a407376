"""Seconds as a function of sizes, known at the points of a grid."""

import math
from bisect import bisect_right
from itertools import product

import msgspec


class Rates(msgspec.Struct, frozen=True):
    """What one unit of work costs at each point of a grid of sizes, and what a call costs however small.

    >>> copying = Rates(axes=((1_000, 4_000),), per_unit=(4e-9, 1e-9), hosts=(2e-6, 2e-6), least=2e-6)
    >>> f"{copying.seconds((4_000,), 4_000):.2g}"
    '4e-06'
    >>> f"{copying.seconds((2_000,), 2_000):.2g}"                  # between two points: linear in the logarithms
    '4e-06'
    >>> f"{copying.seconds((8_000,), 8_000):.2g}"                  # beyond the last point: at its rate
    '8e-06'
    >>> copying.seconds((10,), 10)                        # never less than the smallest call
    2e-06

    `hosts` is what the host needs to start a call at each point, `least` the time of the smallest call on the device.
    """

    axes: tuple[tuple[int, ...], ...]
    per_unit: tuple[float, ...]
    hosts: tuple[float, ...]
    least: float

    def seconds(self, sizes: tuple[int, ...], amount: float) -> float:
        """The device's seconds for an amount of work."""
        return max(self.least, amount * self._at(self.per_unit, sizes))

    def host(self, sizes: tuple[int, ...]) -> float:
        """The host's seconds to start it."""
        return self._at(self.hosts, sizes)

    @property
    def best(self) -> float:
        """Seconds of one unit of work where it is cheapest."""
        return min(self.per_unit)

    def _at(self, values: tuple[float, ...], sizes: tuple[int, ...]) -> float:
        logarithm = 0.0
        for corner in product(*(_between(axis, size) for axis, size in zip(self.axes, sizes, strict=True))):
            place, weight = 0, 1.0
            for axis, (index, share) in zip(self.axes, corner, strict=True):
                place = place * len(axis) + index
                weight *= share
            if weight:
                logarithm += weight * math.log(values[place])
        return math.exp(logarithm)


def _between(axis: tuple[int, ...], size: int) -> tuple[tuple[int, float], ...]:
    """The points of an axis around a size, each with its share."""
    if size <= axis[0]:
        return ((0, 1.0),)
    if size >= axis[-1]:
        return ((len(axis) - 1, 1.0),)
    above = bisect_right(axis, size)
    share = math.log(size / axis[above - 1]) / math.log(axis[above] / axis[above - 1])
    return (above - 1, 1 - share), (above, share)
