"""Numbers of a cost at sizes, each with how it is known: what `porism cost --at` says without counting anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from porism.web.catalogue import CostEntry
from porism.web.trees import NoValue, evaluate


@dataclass(frozen=True)
class Value:
    """A number of any size, or None where there is none; its label is one of those of `porism.costing.quantity`."""

    number: int | None
    label: str
    why: str = ""

    @property
    def digits(self) -> str | None:
        return None if self.number is None else str(self.number)

    @property
    def text(self) -> str:
        """For people: digits in groups.

        >>> Value(42949672960, "by formula").text
        '42,949,672,960'
        """
        if self.number is None:
            return self.label
        return f"{'at least ' if self.label == 'lower bound' else ''}{self.number:,}"


def sizes_of(cost: CostEntry, given: Mapping[str, int]) -> dict[str, int]:
    """A size for each letter of a cost: those given, else those it begins with."""
    return {entry["letter"]: given.get(entry["letter"], entry["default"]) for entry in cost["letters"]}


def value_at(cost: CostEntry, kind: str, given: Mapping[str, int]) -> Value:
    """One kind of cost at sizes.

    >>> from porism.web.catalogue import catalogue
    >>> value_at(catalogue().costs["attention"], "flops", {"B": 1, "T": 100, "A": 8, "D": 64})
    Value(number=230195200, label='by formula', why='')
    """
    formula, sizes = cost[kind], sizes_of(cost, given)
    if formula["tree"] is None:
        return Value(None, formula["label"], formula["why"])
    for entry in cost["letters"]:
        if sizes[entry["letter"]] % entry["multiple"]:
            return Value(
                None, "unknown", f"the formula holds for {entry['letter']} in multiples of {entry['multiple']}"
            )
    for letter, least in formula["least"].items():
        if sizes[letter] < least:
            return Value(None, "unknown", f"the formula holds from {letter} {least} on")
    try:
        found = evaluate(formula["tree"], sizes)
    except NoValue as error:
        return Value(None, "unknown", str(error))
    doubts = [*_outside(cost["held_out"][kind], sizes), *filter(None, [formula["doubt"]])]
    why = ", ".join(doubts)
    if not isinstance(found, int):
        return Value(None, "unknown", f"the formula gives {found} there, which is no count")
    if found < 0:
        return Value(None, "unknown", f"no count is below zero, as the formula is there: {why}")
    if formula["label"] != "by formula":
        return Value(found, formula["label"], "; ".join(filter(None, [formula["why"], why])))
    return Value(found, "extrapolated" if why else "by formula", why)


def _outside(ranges: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """The letters whose size is outside of what was confirmed, in words."""
    parts = []
    for letter, (low, high) in ranges.items():
        if sizes[letter] > high:
            parts.append(f"{letter} confirmed to {high}")
        elif sizes[letter] < low:
            parts.append(f"{letter} confirmed from {low}")
    return parts
