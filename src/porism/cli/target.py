"""From what a user names to what is counted: a layer, a recipe, or anything of a package."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from porism.errors import PorismError, RecipeError


@dataclass(frozen=True)
class Target:
    """A module, function or factory with its inputs, and the sizes that go without saying."""

    name: str
    counted: Any
    inputs: tuple[Any, ...]
    sizes: dict[str, int] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    drawing: Callable[[Mapping[str, int]], str] | None = None
    """Pictures at sizes, where there is something to draw."""


def find(text: str, inputs: Sequence[str] = (), arguments: str = "") -> Target:
    """What `porism cost` is asked about.

    >>> find("elman").inputs
    ('T B D',)
    >>> find("language/elman").sizes["H"]
    200
    >>> find("torch.nn:Linear", ["B T D"], "64, 10").counted
    Linear(in_features=64, out_features=10, bias=True)
    """
    from porism.errors import nearest
    from porism.layers.cases import LAYERS
    from porism.tasks import TASKS
    from porism.tasks import find as find_task

    if ":" in text:
        if not inputs:
            raise RecipeError(f'cost: what goes into {text}? Name its sizes, for instance --input "B T D".')
        return Target(text, _brought(text, arguments), tuple(inputs))
    if inputs or arguments:
        raise RecipeError(f"cost: --input and --with are for package.module:factory, and {text} has its own.")
    if text in LAYERS:
        place = _cost_of(text)
        counted, own_inputs = place.subject()
        limits = {"multiples": getattr(place, "MULTIPLES", {}), "largest": getattr(place, "LARGEST", {})}
        return Target(text, counted, own_inputs, **limits, drawing=getattr(place, "drawing", None))
    tasks = {name: find_task(name) for name in TASKS}
    recipes = {f"{name}/{recipe}": (task, recipe) for name, task in tasks.items() for recipe in task.recipes}
    if text in recipes:
        task, recipe = recipes[text]
        return Target(text, *task.subject(task.recipes[recipe]))
    raise RecipeError(
        f"cost: there is no layer and no recipe {text!r}. {nearest(text, [*LAYERS, *recipes])} "
        "For a module of yours write package.module:factory."
    )


def drawable() -> list[str]:
    """The layers that can be drawn."""
    from porism.layers.cases import LAYERS

    return [layer for layer in LAYERS if hasattr(_cost_of(layer), "drawing")]


def _cost_of(layer: str) -> ModuleType:
    from porism.layers.cases import LAYERS

    return import_module(f"{LAYERS[layer]}.cost")


def _brought(text: str, arguments: str) -> Any:
    """The module or factory a user names."""
    place, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  # the folder the user stands in, as `python -m` does
    try:
        found = getattr(import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise PorismError(f"cost: {text} cannot be found: {error}.") from error
    if not arguments:
        return found
    try:
        return found(*(int(word) for word in arguments.split(",")))
    except (TypeError, ValueError) as error:
        raise PorismError(f"cost: {name}({arguments}) cannot be made: {error}.") from error
