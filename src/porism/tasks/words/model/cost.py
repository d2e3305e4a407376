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


def work_notes(recipe: WordsRecipe) -> list[str]:
    """How the work of training differs from what is counted: every pair of a window, each with its own samples."""
    less = ["drop frequent words at random"] if recipe.sample else []
    less += ["share negatives among the contexts of a word"] if recipe.by_kernel else []
    if not less:
        return []
    who = "The kernels" if recipe.by_kernel else "Epochs"
    return [
        f"Counted are {pairs_a_word(recipe)} pairs a word, the mean of a window of {recipe.window}, each with its own "
        f"samples. {who} {' and '.join(less)}: they compute less than that, and fewer FLOPs a second than shown."
    ]
