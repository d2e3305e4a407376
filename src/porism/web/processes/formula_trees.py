"""From a formula of sympy to a tree that a browser evaluates exactly: see `porism.web.trees`."""

from typing import Any

import sympy
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from porism.errors import CostError

EXACT = 2**53
"""Whole numbers from here on are not exact in a browser's JSON, and are written as text."""

HEADS: dict[type, str] = {
    sympy.Add: "+",
    sympy.Mul: "*",
    sympy.floor: "floor",
    sympy.ceiling: "ceil",
    sympy.Mod: "mod",
    sympy.Max: "max",
    sympy.Min: "min",
    sympy.Abs: "abs",
    sympy.And: "and",
    sympy.Or: "or",
    sympy.Not: "not",
    sympy.Eq: "==",
    sympy.Ne: "!=",
}


def tree_of(formula: Expr) -> Any:
    """The tree of a formula.

    >>> from porism.costing.alphabet import D, H, T
    >>> tree_of(2 * T * (D + H))
    ['*', 2, 'T', ['+', 'D', 'H']]
    >>> tree_of(sympy.floor(T / 2))
    ['floor', ['*', '1/2', 'T']]
    """
    match formula:
        case BooleanTrue() | BooleanFalse():
            return bool(formula)
        case sympy.Integer():
            number = int(formula)
            return number if abs(number) < EXACT else str(number)
        case sympy.Rational():
            return f"{formula.p}/{formula.q}"
        case sympy.Symbol():
            return str(formula.name)
        case sympy.Pow() if formula.exp.is_Integer:
            return ["^", tree_of(formula.base), int(formula.exp)]
        case sympy.Piecewise():
            return _branches(formula)
        case Relational() if formula.rel_op in ("<", "<=", ">", ">="):
            return [formula.rel_op, tree_of(formula.lhs), tree_of(formula.rhs)]
    head = next((head for kind, head in HEADS.items() if isinstance(formula, kind)), None)
    if head is None:
        raise CostError(f"cost: {formula} has no tree: {type(formula).__name__} is no operation of one.")
    # In the order in which the formula is printed.
    parts = formula.as_ordered_terms() if head == "+" else formula.as_ordered_factors() if head == "*" else formula.args
    return [head, *(tree_of(part) for part in parts)]


def _branches(formula: sympy.Piecewise) -> list[Any]:
    tree: list[Any] = ["if"]
    for value, condition in formula.args:
        if condition is sympy.true:
            return [*tree, tree_of(value)]
        tree += [tree_of(condition), tree_of(value)]
    return tree
