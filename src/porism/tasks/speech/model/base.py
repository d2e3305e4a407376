"""A speech model: an encoder, a decoder that attends to its output, and where a recipe says so CTC on the encoder.

loss = (1 - ctc_weight) cross-entropy of the decoder + ctc_weight CTC of the encoder
       + guided_attention_weight * guided attention loss
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.errors import RecipeError, advise, fields
from porism.tasks.speech.data.symbols import CTC_BLANK, EOS, PAD, UNKNOWN
from porism.tasks.speech.model.ctc import ctc_loss
from porism.tasks.speech.model.decoders import AttentionDecoder, Decoder, LSTMDecoder
from porism.tasks.speech.model.encoder import Encoder, EncoderOutput
from porism.tasks.speech.recipes import SpeechRecipe

DIAGONAL_WIDTH = 0.2
"""Standard deviation of the guided attention loss, as a share of the recording."""


class SpeechModel(nn.Module):
    """
    >>> model = SpeechModel(RECIPES["joint"], channels=80, symbols=35)
    >>> loss = model.loss(features, lengths, tokens)                  # B X C, B, B T with sos, eos and padding
    """

    def __init__(self, recipe: SpeechRecipe, channels: int, symbols: int) -> None:
        super().__init__()
        self.recipe = recipe
        self.encoder = Encoder(recipe, channels)
        kind = LSTMDecoder if recipe.decoder == "lstm" else AttentionDecoder
        self.decoder: Decoder = kind(recipe, symbols)
        self.head = nn.Linear(recipe.hidden_size, symbols) if recipe.ctc_weight else None

    def ctc_log_probs(self, encoder_out: EncoderOutput) -> Tensor:
        """Log-probabilities of each symbol at each state (B, S, V); padding stands for the blank."""
        if self.head is None:
            raise RecipeError(
                f"recipe {self.recipe.name}: this model has no CTC.",
                advise("Train it with {}, or search without.", fields(ctc_weight=0.3)),
            )
        log_probs: Tensor = self.head(encoder_out.states).float().log_softmax(2)
        return log_probs

    def loss(self, features: Tensor, lengths: Tensor, tokens: Tensor, all_tokens: Tensor | None = None) -> Tensor:
        return self.text_loss(self.encoder(features, lengths), tokens, all_tokens)

    def text_loss(self, encoder_out: EncoderOutput, tokens: Tensor, all_tokens: Tensor | None = None) -> Tensor:
        """The mean over all symbols of the batch.

        all_tokens: those of a larger batch, of which this one is a part: then what it adds to the mean over that one.
        """
        recipe = self.recipe
        part = None if all_tokens is None else SymbolShares.of(tokens[:, 1:], all_tokens[:, 1:], recipe.ignore_padding)
        guided = recipe.guided_attention_weight > 0 and self.training
        inputs = (
            mask_tokens(tokens[:, :-1], recipe.word_dropout)
            if recipe.word_dropout and self.training
            else tokens[:, :-1]
        )
        output = self.decoder(inputs, self.decoder.project(encoder_out), need_weights=guided)
        targets = tokens[:, 1:]
        loss = functional.cross_entropy(
            output.logits.float().flatten(0, 1),
            targets.flatten(),
            ignore_index=PAD if recipe.ignore_padding else -1,
            label_smoothing=recipe.label_smoothing,
        )
        if part is not None:
            loss = part.targets * loss
        if recipe.ctc_weight:
            ctc = self.ctc_loss(encoder_out, targets)
            ctc = ctc if part is None else part.labels * ctc
            loss = (1 - recipe.ctc_weight) * loss + recipe.ctc_weight * ctc
        if output.weights is not None:
            guided_loss = guided_attention_loss(output.weights, encoder_out, targets != PAD)
            guided_loss = guided_loss if part is None else part.symbols * guided_loss
            loss = loss + recipe.guided_attention_weight * guided_loss
        return loss

    def ctc_loss(self, encoder_out: EncoderOutput, targets: Tensor) -> Tensor:
        """CTC's loss for each symbol, so that it weighs as much as the decoder's."""
        labels = targets[:, :-1].masked_fill(targets[:, :-1] == EOS, PAD)
        counts = (labels != PAD).sum(1)
        losses = ctc_loss(self.ctc_log_probs(encoder_out), labels, encoder_out.lengths, counts, CTC_BLANK)
        return losses.sum() / counts.sum().clamp(min=1)


class SymbolShares(NamedTuple):
    """Which share of a batch a part of it has, of what each term of the loss is a mean over."""

    targets: float
    labels: float
    """Of CTC, which has no eos."""
    symbols: float
    """Without padding."""

    @classmethod
    def of(cls, part: Tensor, whole: Tensor, ignore_padding: bool) -> "SymbolShares":
        def counts(targets: Tensor) -> tuple[int, int, int]:
            symbols, first = targets != PAD, targets[:, :-1]
            labels = int(((first != PAD) & (first != EOS)).sum())
            return int(symbols.sum()) if ignore_padding else targets.numel(), labels, int(symbols.sum())

        return cls(*(own / max(1, every) for own, every in zip(counts(part), counts(whole), strict=True)))


def mask_tokens(tokens: Tensor, share: float) -> Tensor:
    """A random share of the symbols becomes unknown; the first, which is the sos, stays."""
    masked = torch.rand(tokens.shape, device=tokens.device) < share
    masked[:, 0] = False
    return tokens.masked_fill(masked, UNKNOWN)


def guided_attention_loss(weights: Tensor, encoder_out: EncoderOutput, is_symbol: Tensor) -> Tensor:
    """The mean attention off the diagonal, on which a text and its recording advance evenly.

    sum over s of w[t][s] (1 - exp(-(t / T - s / S)^2 / (2 g^2)))        Tachibana, Uenoyama and Aihara, 2018

    Shapes: weights (B, A, T, S), is_symbol (B, T), False for padding.
    """
    T, S = weights.shape[2:]
    device = weights.device
    symbol = torch.arange(T, device=device) / is_symbol.sum(1, keepdim=True)  # B T
    state = torch.arange(S, device=device) / encoder_out.lengths[:, None]  # B S
    penalty = 1 - torch.exp(-((symbol[:, :, None] - state[:, None]) ** 2) / (2 * DIAGONAL_WIDTH**2))  # B T S
    penalties = (weights.mean(1) * penalty).sum(2)
    return (penalties * is_symbol).sum() / is_symbol.sum()


def lowest_loss(recipe: SpeechRecipe, symbols: int) -> float:
    """The loss of a model that is always right: the entropy of the smoothed labels.

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
    """The model of a recipe."""
    return SpeechModel(recipe, channels, symbols)
