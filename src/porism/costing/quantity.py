"""Quantity: a number of FLOPs, bytes or parameters that says how it is known and how far it can be trusted."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, SupportsFloat

from sympy import Expr

from porism.errors import CostError

Label = Literal["by formula", "counted", "extrapolated", "lower bound", "range", "unknown"]

FIRMEST: tuple[Label, ...] = ("by formula", "counted", "extrapolated", "range", "lower bound", "unknown")
"""The labels, from the one that can be trusted most to the one that says least."""


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """A number with the way it is known: from a formula, counted, extrapolated, a bound, a range, or not at all.

    >>> flops = Quantity(1024, unit="FLOPs")
    >>> flops
    1,024 FLOPs
    >>> int(flops), f"{flops:.1e}", flops <= 5e9
    (1024, '1.0e+03', True)
    >>> Quantity(1024, unit="FLOPs", label="extrapolated", why="T confirmed to 138")
    1,024 FLOPs (extrapolated: T confirmed to 138)

    A comparison that cannot be decided raises CostError, and so does the number of what has none:

    >>> bound = Quantity.at_least(1024, unit="FLOPs", why="not counted: mine::gemm x2")
    >>> bound
    at least 1,024 FLOPs (not counted: mine::gemm x2)
    >>> bound <= 1000
    False
    >>> bound <= 5000
    Traceback (most recent call last):
    porism.errors.CostError: cost: at least 1,024 FLOPs (not counted: mine::gemm x2): cannot be compared with 5,000.
    >>> either = Quantity.between(1024, 4096, unit="FLOPs", why="depends on the input")
    >>> either, either <= 4096
    (1,024 to 4,096 FLOPs (depends on the input), True)
    >>> int(Quantity.unknown("Conv1d refuses T=5"))
    Traceback (most recent call last):
    porism.errors.CostError: cost: unknown (Conv1d refuses T=5): it has no number.
    """

    value: int | float | None
    low: int | float | None = None
    high: int | float | None = None
    unit: str = ""
    label: Label = "by formula"
    why: str = ""
    """What limits it: sizes confirmed, operators not counted, the reason for having no number."""
    formula: Expr | None = None
    """What the number was computed from, where it was."""
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.label in ("by formula", "counted", "extrapolated"):
            object.__setattr__(self, "low", self.value)
            object.__setattr__(self, "high", self.value)

    @classmethod
    def at_least(
        cls,
        bound: float,
        *,
        unit: str = "",
        why: str = "",
        formula: Expr | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> "Quantity":
        """A lower bound: what was counted, where something was not."""
        return cls(bound, bound, None, unit, "lower bound", why, formula, sizes or {})

    @classmethod
    def between(
        cls, low: float, high: float, *, unit: str = "", why: str = "", sizes: Mapping[str, int] | None = None
    ) -> "Quantity":
        """A range: what depends on the numbers that go in."""
        return cls(None, low, high, unit, "range", why, None, sizes or {})

    @classmethod
    def unknown(cls, why: str, *, unit: str = "", sizes: Mapping[str, int] | None = None) -> "Quantity":
        """No number, and the reason."""
        return cls(None, None, None, unit, "unknown", why, None, sizes or {})

    @classmethod
    def total(cls, parts: "Iterable[Quantity]") -> "Quantity":
        """The sum of some quantities, known as well as the one that is known least.

        >>> Quantity.total([Quantity(3, unit="bytes"), Quantity(4, unit="bytes", label="counted")])
        7 bytes (counted)
        """
        parts = list(parts)
        least = max(parts, key=lambda part: FIRMEST.index(part.label))
        low = [part.low for part in parts]
        high = [part.high for part in parts]
        value = [part.value for part in parts]
        return cls(
            None if None in value else sum(part for part in value if part is not None),
            None if None in low else sum(part for part in low if part is not None),
            None if None in high else sum(part for part in high if part is not None),
            least.unit,
            least.label,
            least.why,
            None,
            least.sizes,
        )

    def __repr__(self) -> str:
        match self.label:
            case "unknown":
                return f"unknown ({self.why})"
            case "range":
                return self._with_why(f"{_text(self.low)} to {_text(self.high)} {self.unit}".rstrip(), self.why)
            case "lower bound":
                return self._with_why(f"at least {_text(self.low)} {self.unit}".rstrip(), self.why)
        number = f"{_text(self.value)} {self.unit}".rstrip()
        if self.label == "by formula":
            return number
        return self._with_why(number, f"{self.label}: {self.why}" if self.why else self.label)

    def _with_why(self, number: str, why: str) -> str:
        return f"{number} ({why})" if why else number

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return ("at least " if self.label == "lower bound" else "") + format(self._number(), spec)

    def _number(self) -> int | float:
        if self.value is None:
            raise CostError(f"cost: {self}: it has no number.")
        return self.value

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        number = self._number()
        if not isinstance(number, int):
            raise CostError(f"cost: {self}: no whole number.")
        return number

    def __float__(self) -> float:
        return float(self._number())

    def _ends(self, other: object) -> tuple[float, float, float, float] | None:
        """Both as intervals; None for what is no number."""
        if isinstance(other, Quantity):
            theirs = other
        elif isinstance(other, SupportsFloat) and not isinstance(other, str):
            theirs = Quantity(other if isinstance(other, int | float) else float(other))
        else:
            return None
        for one in (self, theirs):
            if one.label == "unknown":
                raise CostError(f"cost: {one}: it has no number to compare.")
        return _end(self.low), _end(self.high), _end(theirs.low), _end(theirs.high)

    def _undecided(self, other: object) -> CostError:
        text = f"{other:,}" if isinstance(other, int | float) else str(other)
        return CostError(f"cost: {self}: cannot be compared with {text}.")

    def __le__(self, other: object) -> bool:
        ends = self._ends(other)
        if ends is None:
            return NotImplemented
        low, high, least, most = ends
        if high <= least:
            return True
        if low > most:
            return False
        raise self._undecided(other)

    def __lt__(self, other: object) -> bool:
        ends = self._ends(other)
        if ends is None:
            return NotImplemented
        low, high, least, most = ends
        if high < least:
            return True
        if low >= most:
            return False
        raise self._undecided(other)

    def __ge__(self, other: object) -> bool:
        below = self.__lt__(other)
        return below if below is NotImplemented else not below

    def __gt__(self, other: object) -> bool:
        below = self.__le__(other)
        return below if below is NotImplemented else not below

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        ends = self._ends(other)
        if ends is None:
            return NotImplemented
        low, high, least, most = ends
        if low == high == least == most:
            return True
        if high < least or low > most:
            return False
        raise self._undecided(other)

    def __hash__(self) -> int:
        return hash(self.value)


def _end(number: float | None) -> float:
    """A bound, where None is that of what has no upper one."""
    return math.inf if number is None else number


def _text(number: float | None) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.3g}"
