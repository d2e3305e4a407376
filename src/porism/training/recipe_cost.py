"""What a recipe costs: derived from the code of its model and loss, once, and kept for as long as that code stays."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.formula_cache import cached, confirmed
from porism.costing.subject import CostSubject
from porism.runs.recipe import Recipe
from porism.training.recipe_key import formulas_file, is_own, key_parts

MOST_COUNTED = 100
_COUNTED: dict[tuple[Path, frozenset[tuple[str, int]]], Cost] = {}
"""By where the formulas are kept and by sizes: a sweep over sizes has many."""


def recipe_cost(recipe: Recipe, subject: CostSubject) -> Cost:
    """The formulas of a recipe's model and loss. Those of recipes in this package are kept in the cache folder."""
    if not is_own(subject.target):
        return _derive(subject)
    return cached(key_parts(recipe, subject), subject, lambda: _derive(subject))


def run_cost(recipe: Recipe, subject: CostSubject, sizes: Mapping[str, int]) -> Cost:
    """The formulas of a recipe for a run of given sizes, which are counted once to see that the formulas hold there.

    Sizes that no formula holds for stay numbers in it: rows and columns that a stride does not divide; all of them
    where the count is another than the formula says.

    Runs of one model in one process, as those of several seeds, are counted once.
    """
    subject = subject.at(sizes)
    if (file := formulas_file(recipe, subject)) is None:
        return _seen_to_hold(recipe, subject, sizes)
    key = (file, frozenset(subject.sizes.items()))
    if (cost := _COUNTED.get(key)) is None:
        if len(_COUNTED) >= MOST_COUNTED:
            _COUNTED.clear()
        cost = _COUNTED[key] = _seen_to_hold(recipe, subject, sizes)
    return cost


def _seen_to_hold(recipe: Recipe, subject: CostSubject, sizes: Mapping[str, int]) -> Cost:
    cost = _at(recipe_cost(recipe, subject), sizes)
    own = is_own(subject.target)
    if confirmed(key_parts(recipe, subject), sizes, lambda: _holds(cost)) if own else _holds(cost):
        return cost
    numbers = replace(subject, fixed={**cost.fixed, **cost.sizes}, multiples={}, largest={})
    return _at(recipe_cost(recipe, numbers), sizes)


def _holds(cost: Cost) -> bool:
    """Whether its formulas say what is counted at its sizes."""
    here = cost.at()
    return all(here[kind].label != "counted" for kind in ("parameters", "flops", "backward_flops"))


def _at(cost: Cost, sizes: Mapping[str, int]) -> Cost:
    return replace(cost, sizes={letter: sizes[letter] for letter in cost.letters})


def _derive(subject: CostSubject) -> Cost:
    return derive(
        subject.target,
        *subject.inputs,
        multiples=subject.multiples,
        largest=subject.largest,
        fixed=subject.fixed,
    )
