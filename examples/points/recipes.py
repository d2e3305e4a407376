"""Named settings of the task."""

from dataclasses import dataclass
from typing import ClassVar

from porism.runs.recipe import Count, Recipe


@dataclass(frozen=True, kw_only=True)
class PointsRecipe(Recipe):
    """A net with one hidden layer, and how it is trained."""

    task: ClassVar[str] = "points"
    hidden_size: Count = 16


RECIPES: dict[str, PointsRecipe] = {
    recipe.name: recipe
    for recipe in (
        PointsRecipe(name="small", description="16 hidden units", batch_size=16, learning_rate=0.02, epochs=10),
        PointsRecipe(name="wide", description="64 hidden units", hidden_size=64, batch_size=16, learning_rate=0.01),
    )
}
