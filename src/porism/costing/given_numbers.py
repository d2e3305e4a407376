"""Sizes and budgets as somebody gave them, checked where they come in."""

import math
import operator
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from porism.costing.quantity import Quantity
from porism.errors import RecipeError, shown


def whole_size(letter: str, size: Any) -> int:
    """A size as an int; numpy's whole numbers and quantities are sizes too.

    >>> whole_size("D", 2.5)
    Traceback (most recent call last):
    porism.errors.RecipeError: cost: D=2.5 is no size. Give a whole number from 1 on.
    """
    try:
        number = operator.index(size)
    except TypeError:
        number = 0
    if isinstance(size, bool) or not 1 <= number < LARGEST:
        raise RecipeError(f"cost: {letter}={_written(size)} is no size. Give a whole number from 1 on.")
    return number


def whole_sizes(name: str, sizes: Any) -> dict[str, int]:
    """Letters with their sizes, as an argument of that name gives them; None gives none."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise RecipeError(f'cost: {name} is {shown(sizes)}, expected letters with sizes, such as {{"D": 8}}.')
    return {letter: whole_size(letter, size) for letter, size in sizes.items()}


def check_budget(what: str, budget: Any) -> int | float:
    """A finite number above 0; numpy's numbers and quantities are numbers too.

    >>> check_budget("budget", 1e9)
    1000000000.0
    >>> check_budget("budget", "1e9")
    Traceback (most recent call last):
    porism.errors.RecipeError: cost: the budget is '1e9', expected a finite number above 0.
    """
    number: int | float = math.nan
    if isinstance(budget, Real | Decimal | Quantity) and not isinstance(budget, bool):
        with suppress(OverflowError):
            number = int(budget) if isinstance(budget, Integral) else float(budget)
    if not 0 < number < LARGEST:
        raise RecipeError(f"cost: the {what} is {_written(budget)}, expected a finite number above 0.")
    return number


LARGEST = 1e300
"""So far a float goes, with room to compute."""


def _written(number: Any) -> str:
    is_long = isinstance(number, int) and number.bit_length() > 1000  # Python may not write so long a number
    return "a number of more than 300 digits" if is_long else shown(number)
