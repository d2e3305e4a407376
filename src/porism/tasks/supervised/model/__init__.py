"""The models of the supervised task, by the recipe's word for them."""

from torch import nn

from porism.errors import Advice, RecipeError
from porism.tasks.supervised.model.base import MLP
from porism.tasks.supervised.recipes import SupervisedRecipe


def build(recipe: SupervisedRecipe, num_features: int, outputs: int) -> nn.Module:
    """The model of a recipe.

    >>> build(RECIPES["linear"], 4, 3)
    MLP(
      (standardize): Standardize()
      (layers): Sequential(
        (0): Linear(in_features=4, out_features=3, bias=True)
      )
    )
    """
    if recipe.model == "own":
        raise RecipeError(
            f"recipe {recipe.name} is of a module of your own.",
            Advice("Give it with --model FILE.py:Name.", "Give it with model=."),
        )
    layers = recipe.num_layers if recipe.model == "mlp" else 0
    return MLP(
        num_features, outputs, recipe.hidden_size, layers, recipe.nonlinearity, recipe.dropout, recipe.standardize
    )
