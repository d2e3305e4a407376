"""Formulas as trees, evaluated exactly on whole numbers and fractions: what the browser does, without sympy.

A tree is a whole number, a text (a letter, or an exact number such as "12345678901234567890" or "3/4"), a bool, or a
list that begins with an operation: `["*", 4, "T", ["+", "D", "T"]]`. In `["if", condition, value, ..., otherwise]` the
last value may be missing: then the formula says nothing where no condition holds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

Tree = int | bool | str | list[Any]
Number = int | Fraction

LARGEST_EXPONENT = 64
"""No formula of a cost has a power beyond this; a tree from elsewhere may ask for any."""


class NoValue(ValueError):
    """A tree that has no value at some sizes, or is none."""


def evaluate(tree: Tree, sizes: Mapping[str, int]) -> Number:
    """The value of a tree at given sizes, exact.

    >>> evaluate(["*", 4, "B", "T", ["+", "D", "T"]], {"B": 1, "T": 3 * 10**9, "D": 64})
    36000000768000000000
    >>> evaluate(["floor", ["/", "T", 2]], {"T": 7}), evaluate("3/4", {})
    (3, Fraction(3, 4))
    """
    value = _value(tree, sizes)
    if isinstance(value, bool):
        raise NoValue("a condition is no number")
    return _plain(value)


def _value(tree: Tree, sizes: Mapping[str, int]) -> Any:
    if isinstance(tree, bool | int):
        return tree
    if isinstance(tree, str):
        if tree in sizes:
            return sizes[tree]
        try:
            return Fraction(tree)
        except (ValueError, ZeroDivisionError):
            raise NoValue(f"no size is given for {tree}") from None
    operation, *arguments = tree
    if operation == "if":
        return _branch(arguments, sizes)
    if operation not in OPERATIONS:
        raise NoValue(f"there is no operation {operation!r}")
    try:
        return OPERATIONS[operation](*(_value(argument, sizes) for argument in arguments))
    except ZeroDivisionError:
        raise NoValue("a division by zero") from None


def _branch(arguments: Sequence[Any], sizes: Mapping[str, int]) -> Any:
    for condition, value in zip(arguments[::2], arguments[1::2], strict=False):
        if _value(condition, sizes) is True:
            return _value(value, sizes)
    if len(arguments) % 2 == 0:
        raise NoValue("no branch of the formula holds")
    return _value(arguments[-1], sizes)


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1 or not -LARGEST_EXPONENT <= exponent <= LARGEST_EXPONENT:
        raise NoValue(f"an exponent of {exponent}")
    return Fraction(base) ** int(exponent)


def _plain(value: Number) -> Number:
    """A fraction that is whole, as a whole number."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda *terms: sum(terms),
    "*": lambda *factors: math.prod(factors),
    "^": _power,
    "/": lambda a, b: Fraction(a) / b,
    "floor": math.floor,
    "ceil": math.ceil,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
    "abs": abs,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda *parts: all(parts),
    "or": lambda *parts: any(parts),
    "not": lambda part: not part,
}
