"""How operations grow when sizes grow together: the exponents of a count beside those that a form has.

A polynomial is of another's order where, and only where, both have the same exponent along every way to grow. O is an
upper bound: a form that falls short along some way is refused for that, and one that only goes too far is said to be a
bound that is not tight.
"""

from collections.abc import Callable, Mapping
from functools import partial

from porism.claims.checks.compare import slope
from porism.claims.claim import Finding
from porism.claims.topics.attention.scalar import Count

Order = Callable[[int, int, int], float | tuple[float, ...]]
"""An order in T, D and A; several of them where the judge counts several things."""

Ways = dict[str, tuple[int, int, int]]
"""The powers in which T, D and A grow together."""

ONE_HEAD: Ways = {
    "T grows": (1, 0, 0),
    "D grows": (0, 1, 0),
    "T and D grow alike": (1, 1, 0),
    "T grows as D^2": (2, 1, 0),
    "D grows as T^2": (1, 2, 0),
}
HEADS: Ways = ONE_HEAD | {
    "A and D grow alike": (0, 1, 1),
    "A grows as the root of D": (0, 2, 1),
    "T, D and A grow alike": (1, 1, 1),
    "T grows as D^2 and A as D": (2, 1, 1),
}
WIDE_HEADS: Ways = ONE_HEAD | {"A grows as the root of D": (0, 2, 1)}
"""The width outgrows the number of heads, or both stay what they are."""
LONG: Ways = {"T grows": (1, 0, 0), "T grows as D^2": (2, 1, 0), "T grows as D^3": (3, 1, 0)}
LONG_HEADS: Ways = LONG | {"T grows as D^2 and A as D": (2, 1, 1)}
WIDE: Ways = {"D grows": (0, 1, 0), "T and D grow alike": (1, 1, 0), "D grows as T^2": (1, 2, 0)}
"""D is larger than T, or grows as fast."""

LOOSE = "a bound, but not tight"

FAR = (2**20, 2**40)
TOLERANCE = 1e-3
"""On an exponent. What smaller powers bring at these sizes is less than a hundredth of it."""


def grows_like(counted: Mapping[str, Count], ways: Ways) -> Callable[[Order], Finding]:
    """form(T, D, A) against the exponents of what is counted, along each of the ways."""

    def judge(form: Order) -> Finding:
        short, beyond, evidence = -1.0, -1.0, {"short": "", "beyond": ""}
        for way, powers in ways.items():
            for place, (what, count) in enumerate(counted.items()):
                true = _exponent(count, powers)
                given = _exponent(partial(_part, form, place), powers)
                seen = f"{what}, as {way}: exponent {true:.3f} counted, {given:.3f} stated"
                # Written so that a NaN is noticed.
                if not true - given <= short:
                    short, evidence["short"] = true - given, seen
                if not given - true <= beyond:
                    beyond, evidence["beyond"] = given - true, seen
        if not short <= TOLERANCE:
            return Finding(short, TOLERANCE, evidence["short"])
        if not beyond <= TOLERANCE:
            return Finding(beyond, TOLERANCE, f"{LOOSE}: {evidence['beyond']}")
        parts = f", for each of {len(counted)} parts" if len(counted) > 1 else ""
        return Finding(max(short, beyond), TOLERANCE, f"exponents equal along {len(ways)} ways to grow{parts}")

    return judge


def _exponent(count: Callable[[int, int, int], float], powers: tuple[int, int, int]) -> float:
    # Powers of 2 throughout, so that heads divide the width.
    T, D, A = powers
    sizes = {far: count(4 * far**T, 8 * far**D, 2 * far**A) for far in FAR}
    # What is zero or less grows with no power.
    return slope(sizes.__getitem__, FAR) if min(sizes.values()) > 0 else float("nan")


def _part(form: Order, place: int, T: int, D: int, A: int) -> float:
    """What a form gives for one of the things that are counted."""
    order = form(T, D, A)
    return order[place] if isinstance(order, tuple) else order
