"""Operations counted one by one: an algorithm runs on numbers that note what is done with them.

>>> def dot(a, b):
...     return sum_of(x * y for x, y in zip(a, b))
>>> tally = tallied(lambda made: dot(made.vector(5), made.vector(5)))
>>> tally.mul, tally.add
(5, 4)
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any


@dataclass
class Tally:
    """How often each kind of operation was done. A subtraction counts as an addition."""

    mul: int = 0
    add: int = 0
    div: int = 0
    exp: int = 0
    sigma: int = 0
    compare: int = 0


@dataclass(frozen=True)
class Noted:
    """A number whose operations are counted. Numbers of Python beside it are constants, and count as operands."""

    value: float
    tally: Tally

    def __add__(self, other: "Noted | float") -> "Noted":
        self.tally.add += 1
        return Noted(self.value + _value(other), self.tally)

    def __sub__(self, other: "Noted | float") -> "Noted":
        self.tally.add += 1
        return Noted(self.value - _value(other), self.tally)

    def __mul__(self, other: "Noted | float") -> "Noted":
        self.tally.mul += 1
        return Noted(self.value * _value(other), self.tally)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: "Noted | float") -> "Noted":
        self.tally.div += 1
        return Noted(self.value / _value(other), self.tally)

    def __lt__(self, other: "Noted | float") -> bool:
        self.tally.compare += 1
        return self.value < _value(other)

    def exp(self) -> "Noted":
        self.tally.exp += 1
        return Noted(math.exp(self.value), self.tally)

    def sigmoid(self) -> "Noted":
        self.tally.sigma += 1
        return Noted(1 / (1 + math.exp(-self.value)), self.tally)


Vector = list[Noted]
Matrix = list[Vector]


@dataclass
class Maker:
    """Makes numbers whose operations go into one tally; making them is not counted. They are small and all
    different."""

    tally: Tally
    made: int = 0

    def number(self) -> Noted:
        self.made += 1
        return Noted(math.sin(self.made) / 2, self.tally)

    def vector(self, size: int) -> Vector:
        return [self.number() for _ in range(size)]

    def matrix(self, rows: int, columns: int) -> Matrix:
        return [self.vector(columns) for _ in range(rows)]


def tallied(program: Callable[[Maker], Any]) -> Tally:
    """Runs a program that gets its numbers from a maker."""
    tally = Tally()
    program(Maker(tally))
    return tally


def sum_of(terms: Iterable[Noted]) -> Noted:
    """n terms, n - 1 additions."""
    return reduce(lambda total, term: total + term, terms)


def product(a: Matrix, b: Matrix) -> Matrix:
    """The schoolbook product, (m, n) by (n, p)."""
    columns = list(zip(*b, strict=True))
    return [[sum_of(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]


def transposed(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def softmax(row: Vector) -> Vector:
    """exp over the sum of exps, without the largest taken off first."""
    powers = [score.exp() for score in row]
    total = sum_of(powers)
    return [power / total for power in powers]


def _value(other: Noted | float) -> float:
    return other.value if isinstance(other, Noted) else other
