"""What a recipe costs: derived from the code of its model and loss, once, and kept for as long as that code stays."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.formula_cache import cached, confirmed, file_of
from porism.costing.subject import CostSubject
from porism.runs.recipe import Recipe, unused_fields

OF_TRAINING = frozenset(field.name for field in fields(Recipe))
"""Fields that every recipe has: how it is trained, which no formula depends on."""
MOST_COUNTED = 100
_COUNTED: dict[tuple[Path, frozenset[tuple[str, int]]], Cost] = {}
"""By where the formulas are kept and by sizes: a sweep over sizes has many."""


def recipe_cost(recipe: Recipe, subject: CostSubject) -> Cost:
    """The formulas of a recipe's model and loss. Those of recipes in this package are kept in the cache folder."""
    if not _is_own(subject.target):
        return _derive(subject)
    return cached(_parts(recipe, subject), subject, lambda: _derive(subject))


def is_kept(recipe: Recipe, subject: CostSubject) -> bool:
    """Whether these formulas are in the cache folder, so that nobody has to wait for them."""
    file = _file(recipe, subject)
    return file is not None and file.is_file()


def _file(recipe: Recipe, subject: CostSubject) -> Path | None:
    """Its name tells all that these formulas depend on; None where that is not known."""
    return file_of(_parts(recipe, subject)) if _is_own(subject.target) else None


def _parts(recipe: Recipe, subject: CostSubject) -> dict[str, Any]:
    """What tells one recipe's formulas from another's."""
    values = asdict(recipe)
    others = {*OF_TRAINING, *recipe.uncounted, *subject.sized_fields, *unused_fields(type(recipe), values)}
    return {
        "task": recipe.task,
        "fields": {name: _as_counted(value) for name, value in values.items() if name not in others},
        "made of": dict(subject.made_of),
        "multiples": dict(subject.multiples),
        "largest": dict(subject.largest),
        "fixed": dict(subject.fixed),
    }


def _as_counted(value: Any) -> Any:
    """Written alike where the same is counted.

    A field given on the command line is 10.0 where the recipe's own is 10. And of a probability or a weight below 1
    it only counts that it is not 0: what is dropped with 0.1 or with 0.5 takes the same operations.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "between 0 and 1" if isinstance(value, float) and 0 < value < 1 else value


def run_cost(recipe: Recipe, subject: CostSubject, sizes: Mapping[str, int]) -> Cost:
    """The formulas of a recipe for a run of given sizes, which are counted once to see that the formulas hold there.

    Sizes that no formula holds for stay numbers in it: rows and columns that a stride does not divide; all of them
    where the count is another than the formula says.

    Runs of one model in one process, as those of several seeds, are counted once.
    """
    subject = subject.at(sizes)
    if (file := _file(recipe, subject)) is None:
        return _seen_to_hold(recipe, subject, sizes)
    key = (file, frozenset(subject.sizes.items()))
    if (cost := _COUNTED.get(key)) is None:
        if len(_COUNTED) >= MOST_COUNTED:
            _COUNTED.clear()
        cost = _COUNTED[key] = _seen_to_hold(recipe, subject, sizes)
    return cost


def _seen_to_hold(recipe: Recipe, subject: CostSubject, sizes: Mapping[str, int]) -> Cost:
    cost = _at(recipe_cost(recipe, subject), sizes)
    is_own = _is_own(subject.target)
    if confirmed(_parts(recipe, subject), sizes, lambda: _holds(cost)) if is_own else _holds(cost):
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


def _is_own(target: nn.Module | Callable[..., Any]) -> bool:
    """Is this code of the package? Others change without a word to the key."""
    place = type(target).__module__ if isinstance(target, nn.Module) else getattr(target, "__module__", "")
    return place.startswith("porism.")
