"""The cost of a word of text: its pairs, each by its estimator's formula."""

from collections.abc import Callable

from torch import nn

from porism.costing.terms import Terms
from porism.layers.skipgram import SkipGram
from porism.layers.skipgram.cost import cost
from porism.tasks.words.recipes import WordsRecipe


def model_cost(recipe: WordsRecipe) -> Terms:
    """For B pairs.

    >>> model_cost(RECIPES["negative"]).total("flops")
    12*B*D
    """
    return cost(recipe.estimator, recipe.negative)


def pairs_a_word(recipe: WordsRecipe) -> int:
    """On average a window reaches half of (1 + window) words to either side."""
    return recipe.window + 1


def subject(recipe: WordsRecipe) -> tuple[Callable[..., nn.Module], tuple[str, ...], dict[str, int]]:
    """The model with its loss at any sizes, the inputs, and the recipe's own sizes."""
    return (
        lambda V, D: SkipGram(V, D, recipe.estimator, recipe.negative),
        ("B : int < V", "B : int < V"),
        {"B": pairs_a_word(recipe), "D": recipe.vector_size},
    )
