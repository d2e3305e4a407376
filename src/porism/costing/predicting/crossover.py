"""Where one formula overtakes another, and how far a budget reaches."""

from collections.abc import Callable, Iterable

import sympy
from sympy import Expr, Symbol

from porism.costing.fitting.basis import symbol
from porism.errors import RecipeError

LARGEST = 2**62
"""No length, width or batch goes beyond this."""

EVERY_SIZE_TO = 1024
"""Sizes up to which a formula with floors or branches is looked at one by one; beyond, at every doubling."""


def changes(ours: Expr, theirs: Expr, letter: str) -> list[tuple[int, int]]:
    """The sizes of a letter from which another is the costlier, with a sign: 1 ours, -1 theirs, 0 neither.

    >>> from porism.costing.alphabet import B, D, T
    >>> changes(4 * B * T**2 * 64, 2 * B * T * 64**2, "T")        # B is on both sides
    [(1, -1), (32, 0), (33, 1)]
    >>> changes(4 * B * T**2 * D, 2 * B * T * D**2, "T")
    Traceback (most recent call last):
    porism.errors.RecipeError: cost: the comparison needs numbers for D too. Give them by name.
    """
    varied = symbol(letter)
    difference = _without_positive_factors(ours - theirs, varied)
    if missing := ", ".join(sorted(str(other) for other in difference.free_symbols - {varied})):
        raise RecipeError(f"cost: the comparison needs numbers for {missing} too. Give them by name.")

    def sign(size: int) -> int:
        return int(sympy.sign(difference.subs({varied: size})))

    if difference.is_polynomial(varied):
        roots = sympy.Poly(difference, varied).nroots() if varied in difference.free_symbols else []
        near = [int(sympy.floor(sympy.re(root))) for root in roots if abs(sympy.im(root)) < 1e-9]
        return _where_it_changes(sign, (root + step for root in near for step in (-1, 0, 1, 2)))
    return _where_it_changes(sign, [*range(1, EVERY_SIZE_TO + 1), *_found_by_doubling(sign)])


def first_above(ours: Expr, theirs: Expr, letter: str) -> int | None:
    """The smallest size of a letter at which ours is more than theirs; None where it never is."""
    return next((size for size, sign in changes(ours, theirs, letter) if sign > 0), None)


def _without_positive_factors(difference: Expr, varied: Symbol) -> Expr:
    """Letters stand for sizes from 1 on, so factors that hold nothing else do not decide a sign."""
    factors = sympy.Mul.make_args(sympy.factor(difference))
    return sympy.Mul(*(part for part in factors if varied in part.free_symbols or not part.is_positive))


def _where_it_changes(sign: Callable[[int], int], sizes: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for size in sorted({1, *(size for size in sizes if size > 1)}):
        if not found or sign(size) != found[-1][1]:
            found.append((size, sign(size)))
    return found


def _found_by_doubling(sign: Callable[[int], int]) -> Iterable[int]:
    low, high = EVERY_SIZE_TO, 2 * EVERY_SIZE_TO
    while low < LARGEST:
        if sign(low) == sign(high):
            low, high = high, 2 * high
            continue
        below, above = low, high
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if sign(middle) == sign(low) else (below, middle)
        yield above
        low = above


def largest(within: Callable[[int], bool], refusal: str) -> int:
    """The largest size a condition holds for, where it holds up to some size and not beyond."""
    if not within(1):
        raise RecipeError(f"cost: {refusal}. Give a larger budget.")
    high = 2
    while within(high):
        high *= 2
        if high > LARGEST:
            raise RecipeError("cost: the budget is reached at no size. Give a smaller budget.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
