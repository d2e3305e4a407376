"""The language models, by the recipe's `model`."""

from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.model.recurrent import RecurrentModel
from porism.tasks.language.model.transformer import TransformerModel
from porism.tasks.language.recipes import LanguageRecipe


def build(recipe: LanguageRecipe, vocabulary: int) -> LanguageModel:
    """The model of a recipe."""
    kind = RecurrentModel if recipe.model in ("elman", "lstm") else TransformerModel
    return kind(recipe, vocabulary)
