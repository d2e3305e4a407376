"""Functions of the letters with exact rational coefficients, and how they are solved for.

A `BasisFunction` is a function of one letter: a power of it times powers of floors of it. A letter's `Basis` is a
list of functions with as many sizes, such that the counts at the first k sizes settle the coefficients of the first k
functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import lcm, prod

import numpy as np
from sympy import Expr, Integer, Rational, Symbol, floor

from porism.costing.alphabet import SYMBOLS, factored


def symbol(letter: str) -> Symbol:
    """The alphabet's own symbol where the letter is in it."""
    return SYMBOLS.get(letter) or Symbol(letter, integer=True, positive=True)


@dataclass(frozen=True)
class Floor:
    """floor((x + shift) / divisor)."""

    shift: int
    divisor: int

    def __call__(self, size: int) -> int:
        return (size + self.shift) // self.divisor

    def expression(self, letter: str) -> Expr:
        return floor((symbol(letter) + self.shift) / Integer(self.divisor))


@dataclass(frozen=True)
class BasisFunction:
    """x^power times a product of floors, each to a power."""

    power: int
    floors: tuple[tuple[Floor, int], ...] = ()

    def __call__(self, size: int) -> int:
        return int(size**self.power * prod(part(size) ** power for part, power in self.floors))

    def expression(self, letter: str) -> Expr:
        floors = (part.expression(letter) ** power for part, power in self.floors)
        return prod(floors, start=symbol(letter) ** self.power)


def solve(rows: Sequence[Sequence[int]], right: Sequence[int]) -> list[Fraction] | None:
    """An exact solution of rows @ x = right, or None. Columns that depend on earlier ones get the coefficient 0.

    >>> solve([[1, 3], [1, 5], [1, 9]], [7, 11, 19])
    [Fraction(1, 1), Fraction(2, 1)]
    """
    table = [[Fraction(entry) for entry in (*row, value)] for row, value in zip(rows, right, strict=True)]
    width = len(rows[0])
    pivots: list[int] = []
    for column in range(width):
        rank = len(pivots)
        found = next((index for index in range(rank, len(table)) if table[index][column]), None)
        if found is None:
            continue
        table[rank], table[found] = table[found], table[rank]
        head = [entry / table[rank][column] for entry in table[rank]]
        table[rank] = head
        for index, row in enumerate(table):
            if index != rank and (leading := row[column]):
                table[index] = [entry - leading * top for entry, top in zip(row, head, strict=True)]
        pivots.append(column)
    if any(row[width] for row in table[len(pivots) :]):
        return None
    solution = [Fraction(0)] * width
    for row, column in zip(table, pivots, strict=False):
        solution[column] = row[width]
    return solution


@dataclass(frozen=True)
class Basis:
    """Functions and sizes of one letter: `steps(x)[j]` is function j made 1 at size j and 0 at all sizes before it."""

    functions: tuple[BasisFunction, ...]
    sizes: tuple[int, ...]

    @cached_property
    def weights(self) -> list[list[Fraction]]:
        """Row j: the combination of functions 0..j that is 0 at the sizes before the j-th and 1 there."""
        rows: list[list[Fraction]] = []
        for index in range(len(self.functions)):
            square = [[function(size) for function in self.functions[: index + 1]] for size in self.sizes[: index + 1]]
            solution = solve(square, [0] * index + [1])
            if solution is None:
                raise ArithmeticError(f"the sizes {self.sizes} do not tell the functions {self.functions} apart")
            rows.append(solution)
        return rows

    def steps(self, size: int) -> list[Fraction]:
        values = [function(size) for function in self.functions]
        return [sum((w * v for w, v in zip(row, values, strict=False)), Fraction(0)) for row in self.weights]


def may_solve(rows: Sequence[Sequence[int]], right: Sequence[int]) -> bool:
    """Can rows @ x = right have a solution? Tested modulo a prime: a quick no is right, a yes is for `solve` to settle.

    >>> may_solve([[1, 3], [1, 5], [1, 9]], [7, 11, 20])
    False
    """
    prime = 2**31 - 1  # products of two residues fit into 64 bits
    table = np.array([[entry % prime for entry in (*row, value)] for row, value in zip(rows, right, strict=True)])
    rank = 0
    for column in range(table.shape[1] - 1):
        found = np.flatnonzero(table[rank:, column])
        if not found.size:
            continue
        table[[rank, rank + found[0]]] = table[[rank + found[0], rank]]
        head = table[rank] * pow(int(table[rank, column]), -1, prime) % prime
        table[rank + 1 :] = (table[rank + 1 :] - table[rank + 1 :, [column]] * head % prime) % prime
        rank += 1
    return not table[rank:, -1].any()


def distinct_sizes(functions: Sequence[BasisFunction], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """One of the sizes for each function, such that they make a basis.

    >>> distinct_sizes([BasisFunction(0), BasisFunction(0, ((Floor(0, 4), 1),))], [8, 9, 10, 11, 12])
    (8, 12)
    """
    picked: list[int] = []
    for height in range(1, len(functions) + 1):
        columns = [[function(size) for size in picked] for function in functions[:height]]
        # A size is of use when its row is no combination of the rows picked so far.
        new = (size for size in sizes if solve(columns, [function(size) for function in functions[:height]]) is None)
        size = next(new, None)
        if size is None:
            return None
        picked.append(size)
    return tuple(picked)


@dataclass(frozen=True)
class Combination:
    """A sum of products of functions, one function a letter, each with an exact coefficient."""

    letters: tuple[str, ...]
    terms: frozenset[tuple[tuple[BasisFunction, ...], Fraction]]

    def __call__(self, sizes: Mapping[str, int]) -> Fraction:
        denominator, functions, terms = self._whole
        values = [[function(sizes[letter]) for function in there] for letter, there in functions.items()]
        total = 0
        for weight, chosen in terms:
            for there, position in zip(values, chosen, strict=True):
                weight *= there[position]
            total += weight
        return Fraction(total, denominator)

    @cached_property
    def _whole(self) -> tuple[int, dict[str, list[BasisFunction]], list[tuple[int, tuple[int, ...]]]]:
        """The same in whole numbers, which are far quicker than fractions, each function once.

        A common denominator, the functions of each letter, and for each term a weight and a function a letter.
        """
        denominator = lcm(*(weight.denominator for _, weight in self.terms))
        functions = {
            letter: list(dict.fromkeys(chosen[position] for chosen, _ in self.terms))
            for position, letter in enumerate(self.letters)
        }
        positions = [{function: position for position, function in enumerate(there)} for there in functions.values()]
        terms = [
            (int(weight * denominator), tuple(there[f] for there, f in zip(positions, chosen, strict=True)))
            for chosen, weight in self.terms
        ]
        return denominator, functions, terms

    def expression(self) -> Expr:
        """The formula, factored."""
        return _factored(self)


@cache
def _factored(combination: Combination) -> Expr:
    terms = (
        prod(
            (function.expression(letter) for letter, function in zip(combination.letters, functions, strict=True)),
            start=Rational(weight.numerator, weight.denominator),
        )
        for functions, weight in combination.terms
    )
    return factored(sum(terms, start=Integer(0)))
