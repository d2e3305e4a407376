"""The cost of a task as metrics.json has it. That of a recipe's model is kept, so that most trainings load no sympy."""

from typing import Any

from porism.costing.kept import TABLES, file_of, keep, read
from porism.training.recipe_key import is_own, key_parts
from porism.training.task import Task

COST_KEYS = {"backward_flops": "backward"}
"""Kinds of cost that metrics.json has under another name, as it had in 0.1."""


def cost_table(task: Task) -> dict[str, Any]:
    """The cost's formulas and their values, in total and by term: operations are those of one unit."""
    if task.user_objects.model is not None:
        from porism.training.own_cost import own_cost_table

        return own_cost_table(task)
    found = _kept_table(task) if type(task).cost is Task.cost else _table(task)
    return {COST_KEYS.get(kind, kind): row for kind, row in found.items()}


def _table(task: Task) -> dict[str, Any]:
    from porism.costing.value_table import value_table

    return value_table(task.cost(), task.letters(), task.units())


def _kept_table(task: Task) -> dict[str, Any]:
    """The same of a cost that is derived from a recipe's code: kept, or made now and kept."""
    letters, units = task.letters(), task.units()
    subject = task.cost_subject().at(letters)
    key = {"formulas": key_parts(task.recipe, subject), "at": {**subject.sizes, **letters}, "units": units}
    file = file_of(key, TABLES) if is_own(subject.target) else None
    if file is None:
        return _table(task)
    if (kept := read(file, dict[str, Any])) is not None:
        return kept
    found = _table(task)
    keep(file, found, "a table")
    return found
