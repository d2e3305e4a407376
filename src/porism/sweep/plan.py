"""What a sweep tries: the recipes, the search space, the seeds of each trial, and how settings are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal

from porism.errors import RecipeError
from porism.runs.recipe import Recipe, settings, with_fields
from porism.sweep.space import Range, Space
from porism.training.task import Task

RECIPE = "recipe"
"""The name of the choice between recipes, beside those of fields."""
MOST_TRIALS = 10_000
Sampler = Literal["grid", "random", "tpe"]


@dataclass(frozen=True)
class SweepPlan:
    """All that decides which settings a sweep tries, and how each is trained.

    >>> plan = SweepPlan(kind, (recipe,), {"hidden_size": Values((100, 200))})
    >>> plan.trials, plan.grid()
    (2, [{'hidden_size': 100}, {'hidden_size': 200}])
    """

    kind: type[Task]
    recipes: tuple[Recipe, ...]
    space: Space
    seeds: tuple[int, ...] = (1,)
    """Every trial is trained from each of them; its value is the mean."""
    drawn: int | None = None
    """How many settings are drawn; None for every one of a grid."""
    sampler: Sampler = "grid"
    prune: bool = False
    source: str | None = None
    device: str = "auto"
    threads: int | None = None
    baselines: bool = True

    @cached_property
    def trials(self) -> int:
        if self.drawn is not None:
            return self.drawn
        sizes = [len(values.values) for values in self.space.values() if not isinstance(values, Range)]
        return len(self.recipes) * math.prod(sizes)

    @property
    def choices(self) -> list[str]:
        """The names of what a setting chooses."""
        return [*([RECIPE] if len(self.recipes) > 1 else []), *self.space]

    def grid(self) -> list[dict[str, Any]]:
        """Every setting, the last field changing fastest."""
        columns = {name: values.values for name, values in self.space.items() if not isinstance(values, Range)}
        recipes = [{RECIPE: recipe.name} if len(self.recipes) > 1 else {} for recipe in self.recipes]
        rows = [dict(zip(columns, values, strict=True)) for values in product(*columns.values())]
        return [recipe | row for recipe in recipes for row in rows]

    def recipe_of(self, setting: Mapping[str, Any]) -> Recipe:
        """The recipe of a setting; refused where its values do not go together."""
        by_name = {recipe.name: recipe for recipe in self.recipes}
        base = by_name[setting.get(RECIPE, self.recipes[0].name)]
        return with_fields(base, {name: value for name, value in setting.items() if name != RECIPE})

    def check(self) -> None:
        """Refuse what cannot be tried, before anything is trained."""
        if not self.choices:
            raise RecipeError(
                "a sweep over nothing: give --over FIELD=VALUE,VALUE, or several recipes. porism train trains one."
            )
        ranges = [name for name, values in self.space.items() if isinstance(values, Range)]
        if self.sampler == "grid" and ranges:
            raise RecipeError(
                f"{ranges[0]}={self.space[ranges[0]]} is a range, and a grid takes values. Give {ranges[0]}=A,B, or "
                "draw from it with --trials N."
            )
        if not 1 <= self.trials <= MOST_TRIALS:
            raise RecipeError(
                f"a sweep of {self.trials:,} trials: expected 1 to {MOST_TRIALS:,}. Give fewer values, or --trials N."
            )
        if self.sampler == "grid":
            for setting in self.grid():
                self.recipe_of(setting)

    def identity(self) -> dict[str, Any]:
        """What must be the same for everybody who works at one sweep, as plain values."""
        return {
            "task": self.kind.name,
            "recipes": {recipe.name: _plain(settings(recipe)) for recipe in self.recipes},
            "over": {name: str(values) for name, values in self.space.items()},
            "seeds": list(self.seeds),
            "trials": self.trials,
            "sampler": self.sampler,
            "prune": self.prune,
        }


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def setting_text(setting: Mapping[str, Any]) -> str:
    """
    >>> setting_text({"recipe": "lstm", "hidden_size": 100, "learning_rate": 0.0012345678})
    'lstm, hidden_size=100, learning_rate=0.001235'
    """
    parts = [str(value) if name == RECIPE else f"{name}={value_text(value)}" for name, value in setting.items()]
    return ", ".join(parts) or "the recipe as it is"


def value_text(value: Any) -> str:
    """A field's value as people read it: four digits of a number, and `none` as it is typed."""
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


def ordered(setting: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The setting in the order of the plan: storages have orders of their own."""
    return {name: setting[name] for name in names if name in setting}
