"""What tells the formulas of one recipe from another's, and where they are kept. Imports no sympy."""

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import nn

from porism.costing.kept import file_of
from porism.costing.subject import CostSubject
from porism.runs.recipe import Recipe, unused_fields

OF_TRAINING = frozenset(field.name for field in fields(Recipe))
"""Fields that every recipe has: how it is trained, which no formula depends on."""


def is_kept(recipe: Recipe, subject: CostSubject) -> bool:
    """Whether these formulas are in the cache folder, so that nobody has to wait for them."""
    file = formulas_file(recipe, subject)
    return file is not None and file.is_file()


def formulas_file(recipe: Recipe, subject: CostSubject) -> Path | None:
    """Its name tells all that these formulas depend on; None where that is not known."""
    return file_of(key_parts(recipe, subject)) if is_own(subject.target) else None


def key_parts(recipe: Recipe, subject: CostSubject) -> dict[str, Any]:
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


def is_own(target: nn.Module | Callable[..., Any]) -> bool:
    """Is this code of the package? Others change without a word to the key."""
    place = type(target).__module__ if isinstance(target, nn.Module) else getattr(target, "__module__", "")
    return place.startswith("porism.")
