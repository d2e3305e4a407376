"""A speech model: an encoder that hears, a decoder that writes, and where a recipe asks for it CTC on the encoder.

loss = (1 - ctc) cross-entropy of the decoder + ctc CTC of the encoder + guide * how far from the diagonal it looks
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.errors import RecipeError
from porism.tasks.speech.data.symbols import PAD, STOP, UNKNOWN
from porism.tasks.speech.model.ctc import ctc_loss
from porism.tasks.speech.model.decoders import AttendingDecoder, Decoder, RecurrentDecoder
from porism.tasks.speech.model.encoder import Encoder, Heard
from porism.tasks.speech.recipes import SpeechRecipe

DIAGONAL = 0.2
"""Share of a recording that a symbol may lie off the diagonal before the guide pulls in earnest."""


class SpeechModel(nn.Module):
    """
    >>> model = SpeechModel(RECIPES["joint"], channels=80, symbols=35)
    >>> loss = model.loss(features, lengths, tokens)                  # B X C, B, B T with start, stop and padding
    """

    def __init__(self, recipe: SpeechRecipe, channels: int, symbols: int) -> None:
        super().__init__()
        self.recipe = recipe
        self.encoder = Encoder(recipe, channels)
        kind = RecurrentDecoder if recipe.decoder == "lstm" else AttendingDecoder
        self.decoder: Decoder = kind(recipe, symbols)
        self.head = nn.Linear(recipe.hidden_size, symbols) if recipe.ctc_weight else None

    def ctc_chances(self, heard: Heard) -> Tensor:
        """Log-probabilities of each symbol at each state (B, S, V); padding stands for nothing said."""
        if self.head is None:
            raise RecipeError(
                f"recipe {self.recipe.name}: this model has no CTC. Train it with --set ctc_weight=0.3, or "
                "search without."
            )
        chances: Tensor = self.head(heard.states).float().log_softmax(2)
        return chances

    def loss(self, features: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        return self.text_loss(self.encoder(features, lengths), tokens)

    def text_loss(self, heard: Heard, tokens: Tensor) -> Tensor:
        """The mean over all symbols of the batch."""
        recipe = self.recipe
        guided = recipe.guided_attention_weight > 0 and self.training
        read = (
            forgetful(tokens[:, :-1], recipe.word_dropout) if recipe.word_dropout and self.training else tokens[:, :-1]
        )
        decoded = self.decoder(read, self.decoder.look(heard), need_weights=guided)
        targets = tokens[:, 1:]
        loss = functional.cross_entropy(
            decoded.logits.float().flatten(0, 1),
            targets.flatten(),
            ignore_index=PAD if recipe.ignore_padding else -1,
            label_smoothing=recipe.label_smoothing,
        )
        if recipe.ctc_weight:
            loss = (1 - recipe.ctc_weight) * loss + recipe.ctc_weight * self.ctc_loss(heard, targets)
        if decoded.weights is not None:
            loss = loss + recipe.guided_attention_weight * off_diagonal(decoded.weights, heard, targets != PAD)
        return loss

    def ctc_loss(self, heard: Heard, targets: Tensor) -> Tensor:
        """CTC's loss for each symbol, so that it weighs as much as the decoder's."""
        symbols = targets[:, :-1].masked_fill(targets[:, :-1] == STOP, PAD)
        counts = (symbols != PAD).sum(1)
        losses = ctc_loss(self.ctc_chances(heard), symbols, heard.lengths, counts, PAD)
        return losses.sum() / counts.sum().clamp(min=1)


def forgetful(tokens: Tensor, share: float) -> Tensor:
    """Some symbols become unknown, by luck; the first, which is the start, stays."""
    forgotten = torch.rand(tokens.shape, device=tokens.device) < share
    forgotten[:, 0] = False
    return tokens.masked_fill(forgotten, UNKNOWN)


def off_diagonal(weights: Tensor, heard: Heard, written: Tensor) -> Tensor:
    """The mean weight of what lies off the diagonal, on which a text and its recording go along evenly.

    Shapes: weights (B, A, T, S), written (B, T), True for a symbol.
    """
    T, S = weights.shape[2:]
    device = weights.device
    symbol = torch.arange(T, device=device) / written.sum(1, keepdim=True)  # B T
    state = torch.arange(S, device=device) / heard.lengths[:, None]  # B S
    far = 1 - torch.exp(-((symbol[:, :, None] - state[:, None]) ** 2) / (2 * DIAGONAL**2))  # B T S
    off = (weights.mean(1) * far).sum(2)
    return (off * written).sum() / written.sum()


def lowest_loss(recipe: SpeechRecipe, symbols: int) -> float:
    """What the loss comes to for a model that is always right: smoothed labels have an entropy of their own.

    >>> round(lowest_loss(RECIPES["attention-ljspeech"], symbols=35), 3)
    0.661
    """
    if not recipe.label_smoothing:
        return 0.0
    other = recipe.label_smoothing / symbols
    right = 1 - recipe.label_smoothing + other
    entropy = -right * math.log(right) - (symbols - 1) * other * math.log(other)
    return (1 - recipe.ctc_weight) * entropy


def build(recipe: SpeechRecipe, channels: int, symbols: int) -> SpeechModel:
    """The model a recipe asks for."""
    return SpeechModel(recipe, channels, symbols)
