"""The model of a recipe."""

from typing import TYPE_CHECKING

from porism.errors import RecipeError, advise, fields
from porism.tasks.sentiment.data.reviews import CLASSES
from porism.tasks.sentiment.model.base import Classifier, TextEncoder
from porism.tasks.sentiment.model.encoder import AttentionEncoder
from porism.tasks.sentiment.model.pretrained import PretrainedEncoder
from porism.tasks.sentiment.recipes import SentimentRecipe

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def build(
    recipe: SentimentRecipe, vocabulary: int, unk: int = 0, config: "PretrainedConfig | None" = None
) -> Classifier:
    """A fresh model. config: that of the pretrained encoder, whose weights are drawn here like all others.

    >>> build(RECIPES["attention"], vocabulary=100)(torch.zeros(8, 5, dtype=torch.int64), torch.full((8,), 5)).shape
    torch.Size([8, 3])
    """
    encoder: TextEncoder = AttentionEncoder(recipe, vocabulary, unk) if config is None else PretrainedEncoder(config)
    model = Classifier(encoder, len(CLASSES), recipe.classifier_dropout)
    if recipe.num_frozen_layers:
        count = len(encoder.layers()) - 2
        if recipe.num_frozen_layers > count:
            raise RecipeError(
                f"recipe {recipe.name}: num_frozen_layers={recipe.num_frozen_layers}, and the encoder has {count} "
                "layers.",
                advise("Use {} or fewer.", fields(num_frozen_layers=count)),
            )
        model.freeze(recipe.num_frozen_layers)
    return model
