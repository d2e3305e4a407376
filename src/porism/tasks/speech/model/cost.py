"""The cost of a speech model, as named terms: X columns of C channels (a spectrogram), T symbols out of V, H wide.

Every product has two in its backward pass, one for the weight and one for the input; a fused attention computes its
scores once more in the backward pass.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from sympy import Expr, ceiling, sympify
from torch import Tensor, nn

from porism.costing.alphabet import B, C, H, T, V, X
from porism.costing.terms import Terms
from porism.tasks.speech.data.features import features_named
from porism.tasks.speech.data.symbols import SYMBOLS, UNKNOWN
from porism.tasks.speech.model.base import build
from porism.tasks.speech.recipes import SpeechRecipe


def model_cost(recipe: SpeechRecipe) -> Terms:
    """The cost of a whole model and its loss for B recordings of X columns and texts of T symbols.

    >>> model_cost(RECIPES["attention-ljspeech"]).at(B=1, C=80, X=900, T=98, V=35, H=200, A=2)["parameters"]
    1329835
    """
    return encoder_cost(recipe).with_prefix("encoder") + decoder_cost(recipe).with_prefix("decoder") + _head(recipe)


def encoder_cost(recipe: SpeechRecipe) -> Terms:
    S, mlp = states(recipe), _inner(recipe.dim_feedforward)
    kept = ceiling(X * 2 / recipe.subsampling) if recipe.subsampling > 2 else X
    if recipe.encoder == "lstm":
        block = _times(2, _lstm(S)) + _product("both ends", S, 2 * H, H) + Terms(parameters={"norms": 2 * H})
    else:
        block = _attention(S, S) + _feed_forward(S, mlp) + Terms(parameters={"norms": 4 * H})
    first = 2 * B * kept * 3 * C * H
    # A spectrogram needs no gradient.
    convolutions = Terms(
        parameters={"convolution 1": 3 * C * H + H},
        flops={"convolution 1": first},
        backward_flops={"convolution 1": first},
    ) + _product("convolution 2", S, 3 * H, H)
    return convolutions + _times(recipe.num_layers, block) + Terms(parameters={"last norm": 2 * H})


def decoder_cost(recipe: SpeechRecipe) -> Terms:
    cross_attention = _attention(T, states(recipe)) + _feed_forward(T, _inner(recipe.decoder_dim_feedforward))
    cross_attention += Terms(parameters={"norms": 4 * H})
    readout = _product("readout", T, H, V) + Terms(parameters={"last norm": 2 * H})
    embedding = Terms(parameters={"embedding": V * H})
    if recipe.decoder == "lstm":
        text_layers = _lstm(T) + Terms(parameters={"embedding norm": 2 * H})
    else:
        text_layers = _attention(T, T) + Terms(
            parameters={"norms": 2 * H, "positions": (recipe.max_target_length + 1) * H}
        )
        text_layers = text_layers.with_prefix("self-attention")
    return embedding + text_layers + cross_attention.with_prefix("cross-attention") + readout


def _inner(dim_feedforward: int | None) -> Expr:
    return 2 * H if dim_feedforward is None else sympify(dim_feedforward)


def states(recipe: SpeechRecipe) -> Expr:
    """The number of encoder states of X columns."""
    return ceiling(X / recipe.subsampling)


def _head(recipe: SpeechRecipe) -> Terms:
    """CTC's readout, and its forward variables: 3 operations a state and position, 5 backwards, by convention.

    A text of T symbols, of which the last is the eos, has 2 T - 1 positions: blanks before, between and after.
    """
    if not recipe.ctc_weight:
        return Terms()
    positions = B * states(recipe) * (2 * T - 1)
    scan = Terms(flops={"ctc scan": 3 * positions}, backward_flops={"ctc scan": 5 * positions})
    return _product("ctc", states(recipe), H, V) + scan


def _lstm(length: Expr) -> Terms:
    """torch's has two biases for each of its four gates."""
    return _product("lstm input", length, H, 4 * H) + _product("lstm recurrent", length, H, 4 * H)


def _attention(queries: Expr, keys: Expr) -> Terms:
    """Three projections have a bias, that of the keys has none."""
    square = 2 * B * queries * keys * H
    projections = _product("query and output", queries, H, 2 * H) + _product("key and value", keys, H, 2 * H)
    weights = Terms(parameters={"key and value": -H})
    return (
        projections
        + weights
        + Terms(flops={"scores and values": 2 * square}, backward_flops={"scores and values": 5 * square})
    )


def _feed_forward(length: Expr, inner: Expr) -> Terms:
    up, down = _product("feed-forward", length, H, inner), _product("feed-forward", length, inner, H)
    return up + down


def _product(name: str, length: Expr, in_width: Expr, out_width: Expr) -> Terms:
    product = 2 * B * length * in_width * out_width
    return Terms(
        parameters={name: in_width * out_width + out_width}, flops={name: product}, backward_flops={name: 2 * product}
    )


def _times(count: int, cost: Terms) -> Terms:
    return Terms(**{kind: {name: count * term for name, term in cost.terms(kind).items()} for kind in Terms.kinds()})


class _Loss(nn.Module):
    """A model with its loss."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        self.model = build(recipe, features_named(recipe.features).mels, len(SYMBOLS))

    def forward(self, features: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        # A spectrogram needs no gradient.
        return self.model.loss(features.detach(), lengths, tokens)


def subject(recipe: SpeechRecipe) -> tuple[Callable[..., nn.Module], tuple[Any, ...], dict[str, int]]:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes. Bands and symbols are what they are.

    D is the width of one of the recipe's heads, so that they divide the width. The decoder has a position for each
    of the T symbols of its input.
    """
    inputs = (
        f"B X {features_named(recipe.features).mels}",
        lambda B, X: torch.full((B,), X),
        # No symbol is padding, which would not count.
        lambda B, T: torch.full((B, T + 1), UNKNOWN),
    )
    sizes = {"B": recipe.batch_size, "T": recipe.max_target_length + 1, "D": recipe.hidden_size // recipe.num_heads}
    return lambda D, T: _Loss(replace(recipe, hidden_size=recipe.num_heads * D, max_target_length=T - 1)), inputs, sizes
