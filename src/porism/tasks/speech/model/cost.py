"""What is counted of a speech model: B recordings of X frames, texts of T symbols, H wide."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.tasks.speech.data.features import features_named
from porism.tasks.speech.data.symbols import SYMBOLS, UNKNOWN
from porism.tasks.speech.model.base import build
from porism.tasks.speech.recipes import SpeechRecipe

SHORT = 16
"""Symbols up to which texts are counted: a decoder has positions for so many, and CTC runs on numbers."""
FEWEST = 6
"""Sizes that a formula takes to find and confirm. A shorter text is a number in it."""


class SpeechModelWithLoss(nn.Module):
    """A model with its loss."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        self.model = build(recipe, features_named(recipe.features).mels, len(SYMBOLS))

    def forward(self, features: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        # A spectrogram needs no gradient.
        return self.model.loss(features.detach(), lengths, tokens)


def subject(recipe: SpeechRecipe) -> CostSubject:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes. Bands and symbols are what they are.

    Formulas are for recordings whose frames the subsampling divides. The last of the T symbols is the eos.
    """
    inputs = (
        f"B X {features_named(recipe.features).mels}",
        lambda B, X: torch.full((B,), X),
        # No symbol is padding, which would not count.
        lambda B, T: torch.full((B, T + 1), UNKNOWN),
    )
    longest = recipe.max_target_length + 1
    return CostSubject(
        lambda H: SpeechModelWithLoss(replace(recipe, hidden_size=H)),
        inputs,
        {"B": recipe.batch_size, "T": longest, "H": recipe.hidden_size},
        multiples={"H": recipe.num_heads, "X": recipe.subsampling},
        largest={"T": min(longest, SHORT)} if longest >= FEWEST else {},
        fixed={} if longest >= FEWEST else {"T": longest},
        sized_fields=("hidden_size",),
    )
