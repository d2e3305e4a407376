"""The recipe of a training that Python requests: by name, file or object, with fields, for a model of ours or yours."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from porism.errors import RecipeError
from porism.runs.recipe import Recipe, assignments, check_finite, pick, with_fields
from porism.runs.run import read_recipe
from porism.tasks import find
from porism.tasks.supervised.metric import check_own_metrics
from porism.tasks.supervised.recipes import SupervisedRecipe
from porism.training.own_model import DataInfo, OwnModel
from porism.training.session import recipe_from
from porism.training.task import Function, Task, UserObjects

LOSSES = ("cross_entropy", "mse", "bce")
BY_FUNCTION, BY_MODEL = "function", "model"
"""What the recipe says of a loss that is no name."""


@dataclass(frozen=True)
class Settings:
    """A task's recipe, and what of the user's goes with it."""

    kind: type[Task]
    recipe: Recipe
    overrides: Sequence[str]
    model: OwnModel | None
    loss: Function | None
    metrics: Mapping[str, Function]

    @classmethod
    def of(
        cls,
        task: str,
        recipe: str | Recipe | os.PathLike[str] | None,
        model: nn.Module | Callable[[DataInfo], nn.Module] | str | OwnModel | None,
        loss: str | Function | None,
        metrics: Mapping[str, Function] | None,
        fields: Mapping[str, Any],
        name: str | None = None,
    ) -> "Settings":
        """name: what the recipe of an own model is called; left out, as its class or function."""
        kind = find(task)
        own = None if model is None else OwnModel.of(model)
        fields = {key: _plain(value) for key, value in fields.items()}
        if task == "supervised":
            fields |= _loss_field(loss, own, fields)
        elif loss is not None or metrics is not None:
            given = "loss" if loss is not None else "metrics"
            raise RecipeError(f"{given}= is of task supervised; {task} has its own. Leave it out.")
        base = chosen_recipe(kind, recipe, own)
        if own is not None:
            _refuse_fields_of_models(kind, fields)
            called = name or own.name
            base = dataclasses.replace(
                kind.for_own_model(base), name=slug(called), description=f"a model of your own: {called}"
            )
        changed = with_fields(base, fields)
        check_finite(changed)
        # A run with a model of your own has that one's name, so what it sets is compared with the task's default.
        default = kind.recipes[kind.default_recipe]
        known = kind.recipes.get(changed.name, base) if own is None else kind.for_own_model(default)
        if metrics is not None and not isinstance(metrics, Mapping):
            raise RecipeError(
                f"metrics is a {type(metrics).__name__}, expected a dict of functions by name, such as {{'f1': f1}}."
            )
        if isinstance(changed, SupervisedRecipe):
            check_own_metrics(metrics or {}, changed.loss)
        function = loss if callable(loss) else None
        overrides = assignments(known, changed)
        if own is not None and "loss" in fields:
            # Without it a module of your own is trained by its output's loss.
            overrides = [*(text for text in overrides if not text.startswith("loss=")), f"loss={fields['loss']}"]
        return cls(kind, changed, overrides, own, function, dict(metrics or {}))

    def bring(self, data: Any) -> UserObjects:
        return UserObjects(data, self.model, self.loss, self.metrics)


def chosen_recipe(kind: type[Task], recipe: str | Recipe | os.PathLike[str] | None, own: OwnModel | None) -> Recipe:
    """The recipe by its name, its file or itself; the default where it is left out."""
    expected = type(kind.recipes[kind.default_recipe])
    if recipe is None:
        return kind.recipes[kind.default_recipe]
    if isinstance(recipe, Recipe):
        if not isinstance(recipe, expected):
            raise RecipeError(f"{kind.name}: recipe is a {type(recipe).__name__}, expected a {expected.__name__}.")
        return recipe
    name = os.fspath(recipe)
    if name in kind.experiments:
        raise RecipeError(f"{name} is an experiment, which takes several runs: porism.compare({kind.name!r}, {name!r})")
    if name.endswith(".toml"):
        return recipe_from(kind, read_recipe(Path(name))[1])
    return pick(kind.recipes, name, kind.name)


def slug(name: str) -> str:
    """A name that can be a folder's: letters, digits, points, dashes and underscores.

    >>> slug("My net (wide)")
    'My-net-wide'
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "own"


def _plain(value: Any) -> Any:
    """A path as text, and a number of NumPy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _loss_field(loss: str | Function | None, own: OwnModel | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise RecipeError(f"loss is {loss!r}, expected {', '.join(LOSSES)}, or a function of output and target.")
        return {"loss": loss}
    if callable(loss):
        return {"loss": BY_FUNCTION}
    if loss is not None:
        raise RecipeError(f"loss is a {type(loss).__name__}, expected {', '.join(LOSSES)}, or a function.")
    return {"loss": BY_MODEL} if own is not None else {}


def _refuse_fields_of_models(kind: type[Task], fields: Mapping[str, Any]) -> None:
    """Fields that describe a model of ours say nothing of one that a user gives."""
    known = {field.name for field in dataclasses.fields(Recipe)} | set(kind.fields_beside_model)
    described = {field.name for field in dataclasses.fields(kind.recipes[kind.default_recipe])}
    if others := [name for name in fields if name in described - known]:
        raise RecipeError(f"{kind.name}: {others[0]} is of the recipes' models, and you bring one. Leave it out.")
