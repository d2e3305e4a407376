"""What people train. One folder a task, the same file names in each."""

from collections.abc import Mapping
from importlib import import_module

from porism.errors import RecipeError, nearest
from porism.tasks.blocks.download import DataSet
from porism.training.task import Task

TASKS = {
    "language": "Language",
    "images": "Images",
    "graphs": "Graphs",
    "speech": "Speech",
    "words": "Words",
    "sentiment": "Sentiment",
}
"""A folder's name to the class that ties it together."""


def find(name: str) -> type[Task]:
    """The task of that name. Only its own folder is imported."""
    if name not in TASKS:
        raise RecipeError(f"there is no task {name!r}. {nearest(name, list(TASKS))}")
    found: type[Task] = getattr(import_module(f"porism.tasks.{name}.task"), TASKS[name])
    return found


def catalogue(name: str) -> Mapping[str, DataSet]:
    """The data sets a task knows by name."""
    known: Mapping[str, DataSet] = import_module(f"porism.tasks.{name}.data").CATALOGUE
    return known
