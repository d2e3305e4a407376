"""The largest size of a letter within a budget: searched by formula, then by counts where the code goes another way."""

from collections.abc import Callable, Mapping
from functools import cache

from porism.costing.fitting.survey import extrapolate
from porism.costing.predicting.crossover import largest
from porism.costing.quantity import FIRMEST, Quantity
from porism.costing.reading import TOO_LONG
from porism.errors import CostError


def largest_within(
    value: Callable[..., Quantity],
    budget: float,
    refusal: str,
    letter: str,
    *,
    step: int,
    least: int,
    recounted: bool,
) -> tuple[int, Quantity]:
    """That size, and the quantity there or at the next size, whichever is known less well.

    value: the quantity at a size; `value(size, True)` counts it too, a third argument asks from which size on formula
        and count differ.
    least: the smallest size at which it is confirmed.
    refusal: how the error begins that a budget is exceeded from the first size on.
    """
    value = cache(value)  # the answer and the size after it are evaluated twice, and a count takes seconds
    counted: dict[int, float] = {}

    def number(count: int, recount: bool) -> Quantity:
        found = value(count * step, recount)
        if found.value is not None:
            counted[count] = found.value
        return beyond_counts(found, counted, count, letter, step)

    def within(count: int, recount: bool) -> bool:
        found = number(count, recount)
        return found.value is not None and found.value <= budget

    first = max(1, -(-least // step))
    start = 1 if number(1, False).value is not None else first
    count = largest(lambda count: within(count, False), f"{refusal}{start * step}", start)
    if recounted and not (within(count, True) and not within(count + 1, True)):
        # Outside of the confirmed sizes the code may go another way than the formula.
        count = largest(lambda count: within(count, True), f"{refusal}{first * step}", first)
    here, after = number(count, recounted), number(count + 1, recounted)
    if after.label == "unknown":  # it is the model that ends there, not the budget
        return count * step, Quantity(here.value, label="counted", why=after.why, formula=here.formula)
    known = max(here, after, key=lambda end: FIRMEST.index(end.label))
    if known.label == "counted" and known.why:
        known = value(known.sizes[letter], True, True)
    return count * step, known


def beyond_counts(found: Quantity, counted: Mapping[int, float], count: int, letter: str, step: int) -> Quantity:
    """What takes too long to be counted: by the polynomial through the largest size that was, its half and quarter."""
    if found.why != TOO_LONG:
        return found
    most = max((size for size in counted if size < count), default=0)
    below = sorted({min(counted, key=lambda size: abs(size - most // part)) for part in (4, 2, 1)})
    if len(below) < 3:
        raise CostError(f"cost: counting at {letter}={count * step} takes too long to search there.")
    number = round(extrapolate(below, [round(counted[size]) for size in below], count))
    return Quantity(number, unit=found.unit, label="extrapolated", why=f"{letter} counted to {most * step}")
