"""A derived cost as the page reads it: trees, MathML, terms, and where each formula was confirmed."""

from collections.abc import Mapping
from typing import Any

from sympy import Expr

from porism.costing.breakdown import terms_of
from porism.costing.cost import Cost
from porism.costing.letters import ALPHABET
from porism.costing.module_row import KINDS
from porism.errors import PorismError
from porism.report.formula import mathml
from porism.web.processes.formula_trees import tree_of

MEMORY = "memory"
"""Bytes of training with AdamW: of parameters, gradients, optimizer, and what is kept for the backward pass."""
MEMORY_TALLIES = ("parameter_bytes", "gradient_bytes", "trained_tensors", "activation_bytes")

DEFAULTS = {
    "B": 1,
    "T": 4096,
    "D": 64,
    "H": 64,
    "A": 8,
    "M": 64,
    "K": 2,
    "W": 256,
    "V": 10000,
    "N": 1000,
    "E": 10000,
    "C": 8,
    "Y": 32,
    "X": 32,
    "G": 2,
    "S": 4096,
    "L": 2,
}
"""Sizes at which the page begins, where a recipe does not bring its own."""


def cost_json(cost: Cost, kind: str, about: str = "") -> dict[str, Any]:
    """All that the page needs of a cost. kind: layer, variant, recipe or module."""
    terms = _terms(cost)
    formulas = {each: _formula(cost, each, terms.get(each, {})) for each in KINDS}
    formulas[MEMORY] = _memory(cost)
    return {
        "target": cost.name,
        "kind": kind,
        "about": about,
        "letters": [_letter(cost, letter) for letter in cost.letters],
        "fixed": dict(cost.fixed),
        **formulas,
        "held_out": {
            **{each: _ranges(cost, each) for each in KINDS},
            MEMORY: _ranges(cost, *MEMORY_TALLIES),
        },
        "verdict": cost.findings,
        "uncounted": [f"{name} ({calls} calls)" for name, calls in cost.uncounted.items()],
        "conventions": cost.conventions.text,
    }


def _letter(cost: Cost, letter: str) -> dict[str, Any]:
    step = cost.multiples.get(letter, 1)
    low, high = cost.valid.get(letter, (None, None))
    size = cost.sizes.get(letter, DEFAULTS.get(letter, 1))
    return {
        "letter": letter,
        "name": ALPHABET.get(letter, letter),
        "default": -(-size // step) * step,
        "multiple": step,
        "low": low,
        "high": high,
    }


def _formula(cost: Cost, kind: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    formula, label, why = cost.formula_or_none(kind), "by formula", ""
    if cost.varies(kind):
        return _entry(None, "range", "depends on the data")
    if formula is None:
        return _entry(None, "unknown", cost.reason(kind))
    operations = kind in ("flops", "backward_flops")
    left_out = []
    if operations and cost.uncounted:
        left_out.append(f"not counted: {', '.join(f'{name} x{calls}' for name, calls in cost.uncounted.items())}")
    if kind == "activation_bytes" and cost.target.unmeasured:
        left_out.append(cost.unmeasured)
    if kind == "backward_flops" and cost.target.unsearched:
        left_out.append(f"not searched for tensors: {', '.join(sorted(cost.target.unsearched))}")
    if left_out:
        label, why = "lower bound", "; ".join(left_out)
    return _entry(formula, label, why, terms, cost.least_sizes(kind), _doubt(cost, kind))


def _memory(cost: Cost) -> dict[str, Any]:
    try:
        memory = cost.memory("adamw")
        parts = {name: tree_of(part) for name, part in memory.parts.items()}
    except PorismError as error:
        return _entry(None, "unknown", str(error))
    kept = _formula(cost, "activation_bytes", {})
    least = cost.least_sizes(*MEMORY_TALLIES)
    return _entry(memory.total, kept["label"], kept["why"], parts, least, kept["doubt"])


def _entry(
    formula: Expr | None,
    label: str,
    why: str,
    terms: Mapping[str, Any] | None = None,
    least: Mapping[str, int] | None = None,
    doubt: str = "",
) -> dict[str, Any]:
    """One kind of cost. least: sizes from which on the formula holds. doubt: why its numbers are never confirmed."""
    try:
        tree = None if formula is None else tree_of(formula)
    except PorismError as error:
        tree, label, why = None, "unknown", str(error)
    text = None if formula is None else str(formula)
    return {
        "tree": tree,
        "text": text,
        "mathml": "" if text is None else mathml(text),
        "terms": dict(terms or {}) if tree is not None else {},
        "label": label,
        "why": why,
        "least": dict(least or {}),
        "doubt": doubt,
    }


def _doubt(cost: Cost, kind: str) -> str:
    differs = cost.differs_at(kind)
    parts = [f"it differs at {differs}"] if differs else []
    parts += ["other sizes are refused"] if cost.target.refuses_some else []
    return ", ".join(parts)


def _ranges(cost: Cost, *kinds: str) -> dict[str, list[int]]:
    return {letter: list(known) for letter, known in cost.confirmed_range(*kinds).items()}


def _terms(cost: Cost) -> dict[str, dict[str, Any]]:
    """The named parts of parameters and FLOPs, where the formulas divide into some."""
    try:
        found = terms_of(cost)
        named = {kind: found.terms(kind) for kind in ("parameters", "flops", "backward_flops")}
        trees = {kind: {name: tree_of(part) for name, part in terms.items()} for kind, terms in named.items()}
    except PorismError:
        return {}
    return {kind: terms for kind, terms in trees.items() if len(terms) > 1}
