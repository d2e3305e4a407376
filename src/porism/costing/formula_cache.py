"""Formulas that were derived once, kept in the cache folder: a recipe's take seconds, and hold until the code changes.

Where and for how long they are kept: see kept.py.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Expr, Symbol

from porism.costing.cost import Cost
from porism.costing.counting.conventions import DEFAULT_CONVENTIONS
from porism.costing.counting.target import Target
from porism.costing.fitting.basis import symbol
from porism.costing.fitting.interpolate import Fitted
from porism.costing.kept import CONFIRMED, file_of, keep, read
from porism.costing.module_row import ModuleRow
from porism.costing.subject import CostSubject


def cached(parts: Mapping[str, Any], subject: CostSubject, derive: Callable[[], Cost]) -> Cost:
    """The cost of a subject under `parts`, plain JSON that tells it from all others: kept, or derived now and kept."""
    file = file_of(parts)
    if file is None:
        return derive()
    if (found := read(file, lambda kept: _from_json(kept, subject))) is not None:
        return found
    cost = derive()
    keep(file, _to_json(cost), f"the formulas of {cost.name}")
    return cost


def confirmed(parts: Mapping[str, Any], sizes: Mapping[str, int], count: Callable[[], bool]) -> bool:
    """Whether the formulas under `parts` say at these sizes what a count says: kept, or counted now and kept."""
    file = file_of({"formulas": parts, "at": dict(sizes)}, CONFIRMED)
    if file is None:
        return count()
    if (kept := read(file, bool)) is not None:
        return kept
    holds = count()
    keep(file, holds, "a count")
    return holds


def _to_json(cost: Cost) -> dict[str, Any]:
    """Everything of a cost but what runs. Equal formulas of a stack of layers stand there once."""
    fitted: dict[str, int] = {}

    def place(one: Fitted) -> int:
        plain = {
            "formula": None if one.formula is None else tree_of(one.formula),
            "checked": [dict(sizes) for sizes in one.checked],
            "reason": one.reason,
            "least": dict(one.least),
            "ranges": {letter: list(ends) for letter, ends in one.ranges.items()},
            "differs_at": one.differs_at,
        }
        return fitted.setdefault(json.dumps(plain), len(fitted))

    rows = [[row.path, row.kind, {tally: place(one) for tally, one in row.fitted.items()}] for row in cost.rows]
    target = cost.target
    return {
        "letters": list(cost.letters),
        "fixed": dict(cost.fixed),
        "multiples": dict(cost.multiples),
        "rows": rows,
        "fitted": [json.loads(plain) for plain in fitted],
        "kinds": target.kinds,
        "uncounted": target.uncounted,
        "ahead": sorted(target.ahead),
        "needs_numbers": target.needs_numbers,
        "reads_numbers": target.reads_numbers,
        "refuses_some": target.refuses_some,
        "is_endless": target.is_endless,
        "uncompared": target.uncompared,
        "varying": sorted(target.varying),
        "unsearched": sorted(target.unsearched),
        "aside": sorted(target.aside),
        "ends": target.ends,
        "summed": sorted(target.summed),
    }


def _from_json(kept: Mapping[str, Any], subject: CostSubject) -> Cost:
    target = Target(subject.target, subject.inputs)
    target.kinds, target.uncounted = kept["kinds"], kept["uncounted"]
    target.ahead, target.needs_numbers = set(kept["ahead"]), kept["needs_numbers"]
    target.reads_numbers, target.refuses_some = kept["reads_numbers"], kept["refuses_some"]
    target.is_endless = kept["is_endless"]
    target.uncompared, target.varying = kept["uncompared"], set(kept["varying"])
    target.unsearched, target.aside, target.ends = set(kept["unsearched"]), set(kept["aside"]), kept["ends"]
    target.summed = set(kept["summed"])
    fitted = [
        Fitted(
            None if one["formula"] is None else formula_of(one["formula"]),
            tuple(one["checked"]),
            one["reason"],
            one["least"],
            {letter: (low, high) for letter, (low, high) in one["ranges"].items()},
            one["differs_at"],
        )
        for one in kept["fitted"]
    ]
    rows = tuple(
        ModuleRow(path, kind, {tally: fitted[index] for tally, index in tallies.items()})
        for path, kind, tallies in kept["rows"]
    )
    letters, fixed = tuple(kept["letters"]), kept["fixed"]
    return Cost(target.name, target, letters, fixed, rows, DEFAULT_CONVENTIONS, kept["multiples"])


_FUNCTIONS = {
    kind.__name__: kind
    for kind in (
        *(sympy.Add, sympy.Mul, sympy.Pow, sympy.floor, sympy.ceiling, sympy.Min, sympy.Max, sympy.Piecewise),
        *(sympy.StrictLessThan, sympy.LessThan, sympy.StrictGreaterThan, sympy.GreaterThan),
        *(sympy.Equality, sympy.Unequality, sympy.And, sympy.Or, sympy.Not),
    )
}
_AS_WRITTEN = (sympy.Add, sympy.Mul, sympy.Pow)
"""Sums and products that sympy would multiply out: 2*(B + T) becomes 2*B + 2*T."""


def tree_of(formula: Any) -> Any:
    """A formula as plain JSON: a number, a letter, or a function's name and its arguments.

    >>> from porism.costing.alphabet import B, T
    >>> tree_of(2 * B * (T + 1))
    ['Mul', 2, 'B', ['Add', 1, 'T']]
    """
    match formula:
        case sympy.Integer():
            return int(formula)
        case sympy.Rational():
            return ["Rational", int(formula.p), int(formula.q)]
        case Symbol():
            return formula.name
        case sympy.logic.boolalg.BooleanTrue() | sympy.logic.boolalg.BooleanFalse():
            return bool(formula)
        case sympy.functions.elementary.piecewise.ExprCondPair():
            return ["Case", *map(tree_of, formula.args)]
    name = type(formula).__name__
    if name not in _FUNCTIONS:
        raise TypeError(f"a formula with {name} cannot be kept")
    return [name, *map(tree_of, formula.args)]


def formula_of(tree: Any) -> Expr:
    """The formula that `tree_of` wrote down. Nothing in it is evaluated as code.

    >>> formula_of(['Mul', 2, 'B', ['Add', 1, 'T']])
    2*B*(T + 1)
    """
    match tree:
        case bool():
            return sympy.true if tree else sympy.false
        case int():
            return sympy.Integer(tree)
        case str():
            return symbol(tree)
        case ["Rational", int(above), int(below)]:
            return sympy.Rational(above, below)
        case ["Case", formula, condition]:
            return sympy.Tuple(formula_of(formula), formula_of(condition))
        case [str(name), *arguments] if name in _FUNCTIONS:
            kind = _FUNCTIONS[name]
            built = [formula_of(argument) for argument in arguments]
            return kind(*built, evaluate=False) if kind in _AS_WRITTEN else kind(*built)
    raise ValueError(f"{tree!r} is no formula")
