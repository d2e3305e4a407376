"""What is counted of a word of text: its pairs, each with the loss of its estimator."""

from porism.costing.subject import CostSubject
from porism.layers.skipgram import SkipGram
from porism.tasks.words.recipes import WordsRecipe


def pairs_a_word(recipe: WordsRecipe) -> int:
    """On average a window reaches half of (1 + window) words to either side."""
    return recipe.window + 1


def subject(recipe: WordsRecipe) -> CostSubject:
    """The model with its loss for B pairs at any sizes, the inputs, and the recipe's own sizes."""
    return CostSubject(
        lambda V, D: SkipGram(V, D, recipe.estimator, recipe.negative),
        ("B : int < V", "B : int < V"),
        {"B": pairs_a_word(recipe), "D": recipe.vector_size},
        sized_fields=("vector_size", "window"),
    )
