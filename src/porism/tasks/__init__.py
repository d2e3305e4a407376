"""What people train. One folder a task, the same file names in each."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from porism.errors import RecipeError, nearest
from porism.runs.recipe import Recipe
from porism.training.experiment import Experiment

if TYPE_CHECKING:
    from porism.tasks.blocks.download import DataSet
    from porism.training.task import Task

TASKS = {
    "language": "Language",
    "images": "Images",
    "graphs": "Graphs",
    "speech": "Speech",
    "words": "Words",
    "sentiment": "Sentiment",
    "supervised": "Supervised",
}
"""A folder's name to the class that ties it together."""


class Choices(NamedTuple):
    """What a task can train."""

    recipes: Mapping[str, Recipe]
    experiments: Mapping[str, Experiment]
    default: str
    """The recipe that is taken where none is named."""


def find(name: str) -> "type[Task]":
    """The task of that name. Only its own folder is imported."""
    _refuse_unknown(name)
    found: type[Task] = getattr(import_module(f"porism.tasks.{name}.task"), TASKS[name])
    return found


def choices(name: str) -> Choices:
    """The recipes and experiments of a task. Imports no torch, so that a help with all their fields comes at once."""
    _refuse_unknown(name)
    module = import_module(f"porism.tasks.{name}.recipes")
    return Choices(module.RECIPES, module.EXPERIMENTS, module.DEFAULT)


def catalogue(name: str) -> "Mapping[str, DataSet]":
    """The data sets a task knows by name. Imports no torch."""
    known: Mapping[str, DataSet] = import_module(f"porism.tasks.{name}.catalogue").CATALOGUE
    return known


def _refuse_unknown(name: str) -> None:
    if name not in TASKS:
        raise RecipeError(f"there is no task {name!r}. {nearest(name, list(TASKS))}")
