"""What a model of the user's own costs, by `porism.cost` from its code."""

from copy import deepcopy
from typing import Any

from torch import nn

from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.quantity import Quantity
from porism.errors import CostError
from porism.training.task import Task, parameters_without_shape

FIRM = ("by formula", "counted", "extrapolated")
"""Labels of a quantity that is one number."""


def own_cost(task: Task, trained: nn.Module | None = None) -> Cost:
    """Formulas of a fresh copy of the model, in the letters of the task's inputs.

    trained: the trained module, whose lazy modules have their shapes; needed for these where the task has no data.
    """
    return derive(_module(task, trained), *task.own_inputs().inputs, training=False)


def own_cost_table(task: Task) -> dict[str, Any]:
    """What metrics.json says of the cost: of one unit, by formula where there is one, and what is known otherwise."""
    parameters = sum(p.numel() for p in _module(task).parameters())
    rows: dict[str, Any] = {"parameters": {"formula": str(parameters), "value": parameters, "terms": {}}}
    try:
        cost, given = own_cost(task), task.own_inputs()
        known: dict[str, Any] = {letter: size for letter, size in given.sizes.items() if letter in cost.letters}
        at = cost.at(**known)
    except Exception as error:  # the user's code, run on tensors without numbers, may fail with anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return {**rows, **{kind: {"formula": f"unknown: {reason}", "value": None} for kind in ("flops", "backward")}}
    for key, kind in (("flops", "flops"), ("backward", "backward_flops")):
        rows[key] = _row(cost, kind, at[kind], known, given.units)
    return rows


def _row(cost: Cost, kind: str, quantity: Quantity, sizes: dict[str, Any], units: int) -> dict[str, Any]:
    if quantity.label not in FIRM:
        return {"formula": str(quantity), "value": None}
    try:
        formula = str(cost.formula(kind))
    except CostError:
        formula = str(quantity)
    value = quantity.value or 0
    number = value // units if value % units == 0 else value / units
    return {"formula": formula, "value": number, "sizes": dict(sorted(sizes.items())), "units": units, "terms": {}}


def _module(task: Task, trained: nn.Module | None = None) -> nn.Module:
    own = task.user_objects.model
    if own is None:
        raise CostError(f"{task.name}: no model of your own was given.")
    module = own.build(task.data_info())
    if not parameters_without_shape(module):
        return module
    return task.own_module(task.new_model()) if trained is None else deepcopy(trained).cpu()
