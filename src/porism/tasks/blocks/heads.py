"""Heads of attention in a recipe: as many as its width divides into."""

from math import isqrt

from porism.errors import RecipeError, advise, fields


def check_heads(recipe: str, hidden_size: int, num_heads: int) -> None:
    """Refuse heads that a width does not divide into, and name the most below them that it does."""
    if hidden_size % num_heads:
        raise RecipeError(
            f"recipe {recipe}: hidden_size={hidden_size} does not split into {num_heads} heads.",
            advise("Use {}.", fields(num_heads=largest_divisor(hidden_size, num_heads))),
        )


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most `most`, in as many steps as the root of the number.

    >>> largest_divisor(128, 7), largest_divisor(128, 10**9)
    (4, 128)
    """
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return max(n for one in small for n in (one, number // one) if n <= most)
