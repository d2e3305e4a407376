"""The language models, by the recipe's word for them."""

from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.recipes import LanguageRecipe


def build(recipe: LanguageRecipe, vocabulary: int) -> LanguageModel:
    """The model a recipe asks for."""
    # Both derive from the class above.
    from porism.tasks.language.model.recurrent import RecurrentModel
    from porism.tasks.language.model.transformer import AttendingModel

    kind = RecurrentModel if recipe.model in ("elman", "lstm") else AttendingModel
    return kind(recipe, vocabulary)
