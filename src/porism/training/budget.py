"""How much training each model of a comparison may have.

>>> equal = apply_budget([elman, attention], "equal")      # of 12 and of 4 epochs
>>> [recipe.epochs for recipe in equal]
[12, 12]
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Literal

from porism.errors import Advice, RecipeError, advise, nearest, option, shown
from porism.runs.recipe import AnyRecipe
from porism.training.task import Task

Budget = Mapping[str, float] | Literal["equal"] | None
"""`equal`: as many examples as the recipe with the most; None: each recipe's own; or a number of one of `KINDS`."""
KINDS = ("epochs", "seconds", "examples")
WITHOUT_END = 1000
"""Epochs of a training that time will end; its learning rate falls over the time then."""


def parse_budget(text: str) -> Budget:
    """The budget that a text names: equal, own, epochs=12, seconds=60 or examples=1000000.

    >>> parse_budget("seconds=60")
    {'seconds': 60.0}
    """
    if text in ("equal", "own"):
        return "equal" if text == "equal" else None
    kind, _, amount = text.partition("=")
    try:
        return _checked({kind: float(amount)})
    except ValueError as error:
        if isinstance(error, RecipeError):
            raise
        known = ["equal", "own", *(f"{kind}=N" for kind in KINDS)]
        takes = advise("{} takes", option("budget"))
        choices = f"{', '.join(known)}, got {shown(text)}. {nearest(text, known)}"
        raise RecipeError("", Advice(*(f"{words} {choices}" for words in takes))) from None


def budget_text(budget: Budget) -> str:
    """The text that `parse_budget` reads.

    >>> budget_text({"seconds": 60})
    'seconds=60'
    """
    if isinstance(budget, Mapping):
        ((kind, amount),) = budget.items()
        return f"{kind}={amount:g}"
    return budget or "own"


def apply_budget(
    recipes: Sequence[AnyRecipe], budget: Budget, count_examples: Callable[[AnyRecipe], int] | None = None
) -> list[AnyRecipe]:
    """The recipes with as much training as the budget allows. Each still stops when it no longer improves on `valid`.

    count_examples: how many a recipe sees in an epoch, for a budget of examples.
    """
    if budget is None or not recipes:
        return list(recipes)
    if isinstance(budget, str) and budget == "equal":
        most = max(recipe.epochs for recipe in recipes)
        return [_with_epochs(recipe, most) for recipe in recipes]
    ((kind, amount),) = _checked(budget).items()
    if kind == "seconds":
        return [dataclasses.replace(_with_epochs(recipe, WITHOUT_END), max_seconds=amount) for recipe in recipes]
    if kind == "epochs":
        return [_with_epochs(recipe, int(amount)) for recipe in recipes]
    if count_examples is None:
        raise RecipeError("a budget of examples needs to know how many an epoch has. Give epochs instead.")
    return [_with_epochs(recipe, _epochs(recipe, amount, count_examples(recipe))) for recipe in recipes]


def _with_epochs(recipe: AnyRecipe, epochs: int) -> AnyRecipe:
    """The recipe with other epochs. One that keeps its last epoch keeps its best on `valid` where it gets more of them.

    It was made for fewer: the last of many may be worse than one before.
    """
    changed = dataclasses.replace(recipe, epochs=epochs)
    if recipe.restore_best_weights or epochs <= recipe.epochs:
        return changed
    return dataclasses.replace(changed, restore_best_weights=True, patience=changed.validations)


def examples_in_epoch(task: Task) -> int:
    """How many examples a task's recipe sees in an epoch, in the task's unit."""
    # A pass may be of several epochs, with one validation at its end.
    return sum(task.count(batch) for batch in task.batches(1, 1)) // task.recipe.epochs_between_validations


def _epochs(recipe: AnyRecipe, amount: float, examples: int) -> int:
    """Whole epochs of a number of examples: none sees more than it may."""
    if amount < examples:
        raise RecipeError(
            f"budget examples={amount:g} is less than one epoch of recipe {recipe.name}, which is {examples}. "
            f"Give at least examples={examples}."
        )
    return int(amount // examples)


def _checked(budget: Mapping[str, float]) -> Mapping[str, float]:
    if not isinstance(budget, Mapping):
        raise RecipeError(
            f"a budget is 'equal', None, or a dict of one of {', '.join(KINDS)}, got {shown(budget)}. Write for "
            "instance {'epochs': 12}."
        )
    if len(budget) != 1 or (kind := next(iter(budget))) not in KINDS:
        given = ", ".join(shown(kind)[1:-1] for kind in budget) or "nothing"
        raise RecipeError(f"a budget is one of {', '.join(KINDS)}, got {given}. Write for instance epochs=12.")
    amount = budget[kind]
    if isinstance(amount, bool) or not isinstance(amount, Real):
        raise RecipeError(f"budget {kind} is {shown(amount)}, expected a number above 0. Write for instance {kind}=12.")
    if not math.isfinite(amount) or amount <= 0 or (kind == "epochs" and not float(amount).is_integer()):
        expected = "a whole number from 1 on" if kind == "epochs" else "a number above 0"
        raise RecipeError(f"budget {kind}={amount:g} cannot be: expected {expected}.")
    return budget
