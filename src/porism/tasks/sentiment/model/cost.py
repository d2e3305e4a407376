"""What is counted of a classifier of texts: B texts of T tokens out of V, states H wide."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.subject import CostSubject
from porism.tasks.sentiment.data.reviews import CLASSES
from porism.tasks.sentiment.model.build import build
from porism.tasks.sentiment.model.pretrained import known_config, make_config
from porism.tasks.sentiment.recipes import SentimentRecipe

RESIZED = ("bert", "roberta", "xlm-roberta", "camembert")
"""Kinds of pretrained encoders that are built with other widths. Of others only the batch is a letter."""
MANY_POSITIONS = 256
"""Positions from which on an encoder takes all lengths that are counted. With fewer the length is a number."""
OF_WORDS = ("hidden_size", "max_length")
"""Fields that letters stand for."""


def subject(recipe: SentimentRecipe, config: Mapping[str, Any] | None = None, length: int | None = None) -> CostSubject:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes.

    config: that of a pretrained encoder, where it is not the published one of the recipe.
    length: the tokens of a text, where they are fewer than the recipe allows.
    """
    sizes = {"B": recipe.batch_size, "T": length or recipe.max_length}
    if recipe.is_pretrained:
        return _pretrained(recipe, make_config(config or known_config(recipe.encoder)), sizes)
    # A series pairs the features of a head.
    pairs = recipe.model in ("taylor", "hybrid") and recipe.hidden_size % (2 * recipe.num_heads) == 0
    return CostSubject(
        lambda V, H: ClassifierLoss(replace(recipe, hidden_size=H), V, None),
        _inputs("V"),
        sizes | {"H": recipe.hidden_size},
        multiples={"H": recipe.num_heads * (2 if pairs else 1)},
        fixed={} if recipe.model == "attention" else {"T": sizes["T"]},
        sized_fields=OF_WORDS,
    )


def _pretrained(recipe: SentimentRecipe, config: Any, sizes: Mapping[str, int]) -> CostSubject:
    inputs = _inputs(str(config.vocab_size))
    made_of = {"config": {name: value for name, value in config.to_dict().items() if name != "transformers_version"}}
    if config.model_type not in RESIZED:
        with torch.device("meta"):
            model = ClassifierLoss(recipe, config.vocab_size, config)
        return CostSubject(model, inputs, sizes, fixed={"T": sizes["T"]}, sized_fields=OF_WORDS, made_of=made_of)
    return CostSubject(
        lambda H: ClassifierLoss(recipe, config.vocab_size, _resized(config, H)),
        inputs,
        {**sizes, "H": config.hidden_size},
        multiples={"H": config.num_attention_heads},
        fixed={} if config.max_position_embeddings >= MANY_POSITIONS else {"T": sizes["T"]},
        sized_fields=OF_WORDS,
        made_of=made_of,
    )


def _inputs(vocabulary: str) -> tuple[str, ...]:
    return f"B T : int < {vocabulary}", "B : int", f"B : int < {len(CLASSES)}"


def _resized(config: Any, width: int) -> Any:
    """The configuration with another width, the feed-forward net as many times as wide as before."""
    times, rest = divmod(config.intermediate_size, config.hidden_size)
    inner = config.intermediate_size if rest else times * width
    return make_config({**config.to_dict(), "hidden_size": width, "intermediate_size": inner})


class ClassifierLoss(nn.Module):
    """A model with its loss. Every text is as long as the batch."""

    def __init__(self, recipe: SentimentRecipe, vocabulary: int, config: Any) -> None:
        super().__init__()
        self.model = build(recipe, vocabulary, config=config)

    def forward(self, tokens: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.model(tokens, lengths + tokens.shape[1]), labels)
