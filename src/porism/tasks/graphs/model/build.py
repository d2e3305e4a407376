"""The graph models by the recipe's names."""

from porism.tasks.graphs.model.appnp import APPNP
from porism.tasks.graphs.model.base import GraphModel
from porism.tasks.graphs.model.gcn import GCN
from porism.tasks.graphs.recipes import GraphRecipe


def build(recipe: GraphRecipe, width: int, classes: int) -> GraphModel:
    """The model of a recipe.

    >>> build(RECIPES["kipf"], width=1433, classes=7)(x, graph).shape         # N D -> N V
    torch.Size([2708, 7])
    """
    kind = GCN if recipe.model == "gcn" else APPNP
    return kind(recipe, width, classes)
