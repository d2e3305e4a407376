"""The formulas of a cost with their values at some sizes, in total and by term, as plain JSON."""

from collections.abc import Mapping
from typing import Any

import sympy

from porism.costing.alphabet import factored
from porism.costing.breakdown import terms_of
from porism.costing.cost import Cost
from porism.costing.terms import Terms

LONGEST_FORMULA = 100
"""Letters of text in which a total is shown without sizes put in."""
LENGTHS = ("A", "T", "Y", "X")
"""Letters that are put into a longer one: along these code has branches and steps, which fill a page."""


def value_table(cost: Cost | Terms, letters: Mapping[str, int], units: int) -> dict[str, dict[str, Any]]:
    """Parameters and operations of both passes: operations are those of one unit, of which the sizes stand for `units`.

    >>> terms = Terms(parameters={"weight": D * H}, flops={"product": 2 * B * D * H})
    >>> table = value_table(terms, {"B": 4, "D": 3, "H": 2}, units=4)
    >>> table["flops"]["formula"], table["flops"]["value"], table["flops"]["terms"]
    ('2*B*D*H', 12, {'product': {'formula': '2*B*D*H', 'value': 12}})
    """
    terms, fixed = (terms_of(cost), dict(cost.fixed)) if isinstance(cost, Cost) else (cost, {})

    def row(formula: sympy.Expr, units: int) -> dict[str, Any]:
        value = formula.subs({symbol: letters[symbol.name] for symbol in formula.free_symbols}) / units
        return {"formula": str(formula), "value": int(value) if value.is_integer else float(value)}

    def total(kind: str, units: int) -> dict[str, Any]:
        formula = cost.formula(kind) if isinstance(cost, Cost) else cost.total(kind)
        found, put_in = row(formula, units), {} if kind == "parameters" else dict(fixed)
        if len(str(formula)) > LONGEST_FORMULA:
            lengths = {symbol: letters[symbol.name] for symbol in formula.free_symbols if symbol.name in LENGTHS}
            found["formula"] = str(factored(formula.subs(lengths)))
            put_in |= {symbol.name: size for symbol, size in lengths.items()}
        at = ", ".join(f"{letter}={size}" for letter, size in sorted(put_in.items()))
        sizes = {name: letters[name] for name in sorted(symbol.name for symbol in formula.free_symbols)}
        return {**found, **({"at": at} if at else {}), "sizes": sizes, "units": units}

    kinds = {"parameters": 1, "flops": units, "backward_flops": units}
    return {
        kind: {
            **total(kind, units),
            "terms": {name: row(formula, units) for name, formula in terms.terms(kind).items()},
        }
        for kind, units in kinds.items()
    }
