"""The numbers of a cost at given sizes: by formula where it is confirmed, else counted."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sympy
from sympy import Expr

from porism.costing.counting.recorder import TooManyOperators, at_most
from porism.costing.counting.workspace import TooLargeToRun
from porism.costing.departure import departure
from porism.costing.fitting.basis import symbol
from porism.costing.formulas import CostFormulas
from porism.costing.module_row import TALLIES, UNSEEN, tallies_of
from porism.costing.quantity import Quantity
from porism.errors import PorismError

MOST_OPERATORS = 10_000
"""Operators of one run up to which a number outside of the confirmed sizes is counted there: some seconds of work."""

MOST_OPERATORS_SEARCHED = 2_000
"""The same for each of the counts, a dozen, that tell from which size on a formula does not hold."""

TOO_LONG = "counting there takes too long"


class CostReading:
    """The numbers of a cost at given sizes: what is outside of the confirmed sizes is counted there, once for all.

    `explains` looks for the size from which on formula and count differ, where they do: a dozen counts.
    """

    def __init__(self, cost: CostFormulas, sizes: Mapping[str, int], recount: bool, explains: bool = False) -> None:
        self.cost = cost
        self.sizes = dict(sizes)
        self.recount = recount
        self.explains = explains
        self._counted: dict[str, int] | str | None = None
        self._is_counted = False
        self._draws: list[dict[str, int]] = []

    def quantity(self, kind: str) -> Quantity:
        """One kind of cost."""
        cost = self.cost
        operations = kind in ("flops", "backward_flops")
        unit = {"parameters": "parameters", "activation_bytes": "bytes"}.get(kind, cost.conventions.unit)

        def join(of: Mapping[str, Any]) -> Any:
            parts = [of[tally] for tally in tallies_of(kind)]
            return cost.conventions.join(*(sympy.sympify(part) for part in parts)) if operations else parts[0]

        found = self.of(join, tallies_of(kind), unit, cost.formula_or_none(kind))
        missing = [f"{name} x{calls}" for name, calls in cost.uncounted.items()] if operations else []
        left_out = [f"not counted: {', '.join(missing)}"] if missing else []
        if kind == "activation_bytes" and cost.target.unmeasured:
            left_out.append(cost.unmeasured)
        if kind == "backward_flops" and cost.target.unsearched:
            left_out.append(f"not searched for tensors: {', '.join(sorted(cost.target.unsearched))}")
        if not left_out or found.low is None:
            return found
        why = "; ".join(filter(None, (*left_out, found.why)))
        if found.label == "extrapolated":  # a formula may be too large there: what it gives is no bound
            return replace(found, why=why)
        return Quantity.at_least(found.low, unit=unit, why=why, formula=found.formula, sizes=self.sizes)

    def of(
        self,
        join: Callable[[Mapping[str, Any]], Any],
        tallies: tuple[str, ...],
        unit: str,
        formula: Expr | None = None,
    ) -> Quantity:
        """What is made of some tallies: from their formulas where they hold, else counted."""
        row = self.cost.rows[0]
        if any(f"{tally} {row.path}" in self.cost.target.varying for tally in tallies):
            return self._range(join, unit)
        formulas = {tally: row.fitted[tally].formula for tally in tallies}
        if formula is None and None not in formulas.values():
            formula = join(formulas)
        least = self.cost.least_sizes(*tallies)
        if formula is None or any(self.sizes[letter] < size for letter, size in least.items()):
            return self._by_count(join, tallies, unit)
        number = _number(formula, self.sizes)
        by_formula = Quantity(number, unit=unit, formula=formula, sizes=self.sizes)
        outside = self._outside(self.cost.confirmed_range(*tallies))
        doubts = [outside, *(f"it differs at {at}" for tally in tallies[:1] if (at := row.fitted[tally].differs_at))]
        doubts += ["other sizes are refused"] if self.cost.target.refuses_some else []
        counted = self.counted(outside=bool(outside)) if self.recount else None
        if counted is None:
            why = ", ".join(filter(None, doubts))
            if number < 0:
                return Quantity.unknown(
                    f"no count is below zero, as the formula is there: {why}", unit=unit, sizes=self.sizes
                )
            return replace(by_formula, label="extrapolated", why=why) if why else by_formula
        if isinstance(counted, str):
            return Quantity.unknown(counted, unit=unit, sizes=self.sizes)
        numbers = {int(join(draw)) for draw in self._draws}
        if len(numbers) > 1:
            return self._range(join, unit)
        (there,) = numbers
        if there == number:
            return by_formula
        why = f"the formula gives {number:,}" + (f", {outside}" if outside else "")
        if outside and self.explains:
            why += f"; formula and count differ {self._departure(join, formula, tallies)}"
        return Quantity(there, unit=unit, label="counted", why=why, sizes=self.sizes)

    def _departure(self, join: Callable[[Mapping[str, Any]], Any], formula: Expr, tallies: tuple[str, ...]) -> str:
        """From which size on formula and count differ, in words."""

        def differs(sizes: Mapping[str, int]) -> bool | None:
            with at_most(MOST_OPERATORS_SEARCHED):
                counted = CostReading(self.cost, sizes, recount=True).counted(always=True)
            return int(join(counted)) != _number(formula, sizes) if isinstance(counted, dict) else None

        return departure(differs, self.sizes, self.cost.confirmed_range(*tallies), self.cost.multiples)

    def _range(self, join: Callable[[Mapping[str, Any]], Any], unit: str) -> Quantity:
        """What depends on the data: from the least to the most that was counted of other numbers of these sizes."""
        counted = self.counted(always=True)
        if counted is None or isinstance(counted, str):
            return Quantity.unknown(counted or "", unit=unit, sizes=self.sizes)
        numbers = [int(join(draw)) for draw in self._draws]
        why = f"depends on the data: least and most of {len(numbers)} runs"
        if self.cost.target.is_endless:
            why = f"depends on the data, and some may let it run without end: least of {len(numbers)} runs"
            return Quantity.at_least(min(numbers), unit=unit, why=why, sizes=self.sizes)
        return Quantity.between(min(numbers), max(numbers), unit=unit, why=why, sizes=self.sizes)

    def _by_count(self, join: Callable[[Mapping[str, Any]], Any], tallies: tuple[str, ...], unit: str) -> Quantity:
        counted = self.counted(always=True)
        assert counted is not None
        if isinstance(counted, str):
            return Quantity.unknown(counted, unit=unit, sizes=self.sizes)
        if any(tally not in counted for tally in tallies):
            return Quantity.unknown(UNSEEN, unit=unit, sizes=self.sizes)
        return Quantity(int(join(counted)), unit=unit, label="counted", sizes=self.sizes)

    def _outside(self, ranges: Mapping[str, tuple[int, int]]) -> str:
        """The letters whose size is outside of what was confirmed, in words."""
        parts = []
        for letter, (low, high) in ranges.items():
            if self.sizes[letter] > high:
                parts.append(f"{letter} confirmed to {high}")
            elif self.sizes[letter] < low:
                parts.append(f"{letter} confirmed from {low}")
        return ", ".join(parts)

    def counted(self, always: bool = False, outside: bool = False) -> dict[str, int] | str | None:
        """The tallies at these sizes; a text where the target refuses them; None where counting would take too long."""
        if not self._is_counted or (always and self._counted is None):
            self._counted = self._count(always, outside)
            self._is_counted = True
        return self._counted

    def _count(self, always: bool, outside: bool) -> dict[str, int] | str | None:
        cost = self.cost
        if cost.target.needs_numbers and outside and not always:
            return None  # real tensors of any size may fill the memory
        sizes = {**cost.fixed, **self.sizes}
        try:
            if always:
                draws = cost.target.draws(sizes)
            else:
                with at_most(MOST_OPERATORS):
                    draws = cost.target.draws(sizes)
        except (TooManyOperators, TooLargeToRun):
            return TOO_LONG if always else None
        except PorismError:
            return cost.refusal(self.sizes)
        path = cost.rows[0].path
        self._draws = [
            {tally: quantities[f"{tally} {path}"] for tally in TALLIES if f"{tally} {path}" in quantities}
            for quantities in draws
        ]
        return self._draws[0] or None


def _number(formula: Expr, sizes: Mapping[str, int]) -> int:
    return int(formula.subs({symbol(letter): size for letter, size in sizes.items()}))
