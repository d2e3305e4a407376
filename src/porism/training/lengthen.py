"""A run that is trained for longer than it was begun for: more epochs, or more patience."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from porism.errors import RecipeError, advise
from porism.runs.recipe import Recipe
from porism.runs.results import EXAMPLES, EXHIBITS, METRICS, OUTCOMES
from porism.runs.run import RunFacts
from porism.training.position import go_on

if TYPE_CHECKING:
    from porism.training.loop import Training

LENGTHS = ("epochs", "patience")


def lengthen(training: "Training", recipe: Recipe) -> list[str]:
    """Let a reopened training go on by its recipe with other lengths, and say what changes: `epochs 5 -> 50`.

    What comes of it is what a new run of that recipe gives; where it would be something else, it is refused.
    """
    before = training.task.recipe
    changed = [name for name in LENGTHS if getattr(before, name) != getattr(recipe, name)]
    if not changed:
        return []
    _check(training, recipe)
    run, at = training.run, training.position
    # In an order in which a kill loses no result. Results first: they are of the shorter run, which counts as done
    # while it has them, and without them it is only evaluated again.
    for name in (METRICS, EXHIBITS, OUTCOMES, EXAMPLES):
        (run.path / name).unlink(missing_ok=True)
    run.lengthen(_facts(run.facts, [f"{name}={getattr(recipe, name)}" for name in changed]), recipe)
    training.task.recipe = recipe
    run.append("lengthen", command=run.facts.repeat(), recipe=run.recipe_sha256)
    if at.finished and go_on(at, recipe):
        run.append("resume", **recipe.numbered(epoch=at.epoch), step=at.step, recipe=run.recipe_sha256)
    return [f"{name} {getattr(before, name)} -> {getattr(recipe, name)}" for name in changed]


def _check(training: "Training", recipe: Recipe) -> None:
    at, run, before = training.position, training.run, training.task.recipe
    run.refuse_lengths(recipe)
    reached = before.epochs_at(at.epoch)
    if recipe.epochs < reached:
        raise RecipeError(f"{run.path}: epochs={recipe.epochs} cannot be: the run is in epoch {reached} already.")
    if recipe.epochs != before.epochs and reached % before.check_val_every_n_epoch:
        raise RecipeError(
            f"{run.path}: epochs={recipe.epochs} cannot be: the run is validated after epoch {reached}, and a new one "
            f"would be after {before.check_val_every_n_epoch} epochs each. Start a new run."
        )
    if recipe.patience < before.patience:
        raise RecipeError(
            f"{run.path}: patience={recipe.patience} cannot be: the run was trained with {before.patience}, and a "
            "resumed run can only have more."
        )
    begun = (at.epoch, at.step) != (1, 0)
    if recipe.epochs != before.epochs and recipe.lr_scheduler != "constant" and begun:
        longer = _facts(run.facts, [f"epochs={recipe.epochs}"])
        raise RecipeError(
            f"{run.path}: epochs={recipe.epochs} cannot be: by lr_scheduler={recipe.lr_scheduler} the learning rates "
            f"so far came from epochs={before.epochs}.",
            advise("Start a new run with: {}", longer.repeating()),
        )


def _facts(facts: RunFacts, assignments: Sequence[str]) -> RunFacts:
    """The facts with these among what was set, so that the run's command repeats it."""
    new = {assignment.partition("=")[0] for assignment in assignments}
    kept = [assignment for assignment in facts.overrides if assignment.partition("=")[0] not in new]
    return dataclasses.replace(facts, overrides=[*kept, *assignments])
