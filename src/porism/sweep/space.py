"""The search space of a sweep: the values or the range of each field that `--over` names.

>>> parse_over(recipe, ["hidden_size=100,200", "learning_rate=1e-4..1e-2"])
{'hidden_size': Values(values=(100, 200)), 'learning_rate': Range(low=0.0001, high=0.01, log=True)}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from porism.errors import RecipeError, nearest, shown
from porism.runs.recipe import Recipe, plain_value, settings, with_fields

DECADE = 10
"""A range that spans at least this factor is drawn on a log scale, unless told otherwise."""
SCALES = {":log": True, ":linear": False}
RANGE = ".."


@dataclass(frozen=True)
class Values:
    """Values to choose from."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.values))


@dataclass(frozen=True)
class Range:
    """A range to draw from, both ends in it; whole numbers where both ends are."""

    low: float
    high: float
    log: bool

    def __str__(self) -> str:
        return f"{self.low}{RANGE}{self.high}{':log' if self.log else ':linear'}"


Space = Mapping[str, Values | Range]


def parse_over(recipe: Recipe, texts: Sequence[str]) -> dict[str, Values | Range]:
    """What the texts of `--over` say, with the types and bounds of the recipe's fields."""
    space: dict[str, Values | Range] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        if not equals or not name or not given:
            raise RecipeError(f"--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH, got {shown(text)[1:-1]}.")
        if name == "recipe":
            raise RecipeError("--over takes fields of a recipe. Name several recipes after the task instead.")
        if name not in settings(recipe):
            raise RecipeError(
                f"recipe {recipe.name} has no field {shown(name)}. {nearest(name, list(settings(recipe)))}"
            )
        if name in space:
            raise RecipeError(f"--over names {name} twice. Give all its values at once: {name}=A,B.")
        space[name] = _range(recipe, name, given) if RANGE in given else _values(recipe, name, given)
    return space


def _values(recipe: Recipe, name: str, given: str) -> Values:
    values = [_typed(recipe, name, text) for text in given.split(",")]
    if repeated := [value for number, value in enumerate(values) if value in values[:number]]:
        raise RecipeError(f"--over {name}={shown(given)[1:-1]} names {repeated[0]} twice. Name each value once.")
    return Values(tuple(values))


def _range(recipe: Recipe, name: str, given: str) -> Range:
    wrong = f"--over {name}={shown(given)[1:-1]} cannot be: "
    ends, scale = given, next((scale for scale in SCALES if given.endswith(scale)), "")
    low, high = (_typed(recipe, name, text) for text in ends.removesuffix(scale).split(RANGE, 1))
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise RecipeError(f"{wrong}{name} is no number. Give its values: {name}=A,B.")
    if low >= high:
        raise RecipeError(f"{wrong}expected a low end below a high one.")
    if scale == ":log" and low <= 0:
        raise RecipeError(f"{wrong}a log scale has no {low:g}. Begin above 0, or leave :log out.")
    return Range(low, high, SCALES.get(scale, low > 0 and high >= DECADE * low))


def _typed(recipe: Recipe, name: str, text: str) -> Any:
    """The value that the recipe would hold: of the field's type, within its bounds."""
    value = getattr(with_fields(recipe, {name: plain_value(text.strip())}), name)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise RecipeError(f"--over {name}={text} cannot be: {name} holds several values. Sweep over recipes instead.")
    return value
