"""One axis of a plot: its range, its scale, and the ticks that suit both."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from porism.report.numbers import MINUS, tick

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Between two ticks, times a power of ten."""
WHOLE_STEPS = (1.0, 2.0, 5.0, 10.0)
LARGE, SMALL = 1e4, 1e-4
"""Where numbers on an axis get a prefix, or an exponent."""
NARROWEST = 1e-9
"""Of a number, the range around it that can still be divided."""
LEAST, MOST = 1e-150, 1e150
"""The smallest and the largest that is drawn: floats have room for what is computed of them."""


@dataclass
class Axis:
    """What a plot says of one of its axes, and where values lie on it."""

    label: str = ""
    is_log: bool = False
    """To be said before there are values: those of 0 and less have no position then."""
    is_whole: bool = False
    """Whether ticks are whole numbers."""
    is_shown: bool = True
    """Whether it has a line and ticks."""
    margin: float = 0.05
    """Of the range of values, on either side."""
    limits: tuple[float, float] | None = None
    """In place of the range of values."""
    named_ticks: list[tuple[float, str]] | None = None
    """In place of numbers."""
    _values: list[float] = field(default_factory=list)

    def include(self, values: Iterable[float]) -> None:
        """Let the range hold these values."""
        found = [value for value in values if self.has(value)]
        self._values = [min(found + self._values), max(found + self._values)] if found else self._values

    def has(self, value: float) -> bool:
        """Whether a value has a position on it."""
        return abs(value) < MOST and (value > LEAST or not self.is_log)

    def range(self) -> tuple[float, float]:
        """From where to where it goes."""
        if self.limits is not None:
            return self.limits
        low, high = self._values or (1.0, 10.0)
        if self.is_log:
            low, high = math.log10(low), math.log10(high)
        if high - low <= max(NARROWEST * max(abs(low), abs(high)), LEAST):
            around = 0.05 * abs(low) if abs(low) > LEAST and not self.is_log else 0.05
        else:
            around = self.margin * (high - low)
        return (10 ** (low - around), 10 ** (high + around)) if self.is_log else (low - around, high + around)

    def share(self, value: float) -> float:
        """Where a value lies, from 0 at the lower end to 1 at the upper one."""
        low, high = self.range()
        if self.is_log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return (value - low) / (high - low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Values with what is written beside them, at most so many of them and two at least where that can be.

        >>> axis = Axis(limits=(0.0, 1.0))
        >>> axis.ticks(6)
        [(0.0, '0.0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8'), (1.0, '1.0')]
        >>> Axis(limits=(80.0, 400.0), is_log=True).ticks(6)
        [(100.0, '100'), (150.0, '150'), (200.0, '200'), (300.0, '300')]
        """
        if self.named_ticks is not None:
            return self.named_ticks
        low, high = self.range()
        if self.is_log and high >= 3 * low:
            return [(value, tick(value)) for value in _logarithmic(low, high, most)]
        return _linear(low, high, most, self.is_whole)


def _linear(low: float, high: float, most: int, is_whole: bool) -> list[tuple[float, str]]:
    length = high / most - low / most
    power = math.floor(math.log10(length))
    size = next(size for size in (WHOLE_STEPS if is_whole else STEPS) if size * 10.0**power >= length * (1 - 1e-9))
    step = size * 10.0**power
    if is_whole:
        size, power, step = (size, power, step) if step > 1 else (1.0, 0, 1.0)
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    values = [float(f"{number * step:.12g}") for number in range(first, last + 1)]
    largest = max(map(abs, values), default=0.0)
    if largest >= LARGE:
        return [(value, tick(value)) for value in values]
    if step < SMALL:
        return [(value, f"{value:g}".replace("-", MINUS)) for value in values]
    decimals = max(0, {2.5: 1, 10.0: -1}.get(size, 0) - power)
    return [(value, f"{value:.{decimals}f}".replace("-", MINUS)) for value in values]


def _logarithmic(low: float, high: float, most: int) -> list[float]:
    """Round numbers of every decade, as many in each as there is room for; of many decades some."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for sizes in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [value for ten in decades for size in sizes if low <= (value := float(f"{size}e{ten}")) <= high]
        if len(found) <= most:
            return found
    return found[:: -(-len(found) // most)]
