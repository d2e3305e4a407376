"""The graph models, by the recipe's word for them."""

from porism.tasks.graphs.model.appnp import SpreadingModel
from porism.tasks.graphs.model.base import GraphModel
from porism.tasks.graphs.model.gcn import ConvolvingModel
from porism.tasks.graphs.recipes import GraphRecipe


def build(recipe: GraphRecipe, width: int, classes: int) -> GraphModel:
    """The net a recipe asks for.

    >>> build(RECIPES["kipf"], width=1433, classes=7)(x, graph).shape         # N D -> N V
    torch.Size([2708, 7])
    """
    kind = ConvolvingModel if recipe.model == "gcn" else SpreadingModel
    return kind(recipe, width, classes)
