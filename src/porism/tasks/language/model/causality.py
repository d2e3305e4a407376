"""Whether a language model of the user's own sees the tokens that it predicts.

The target of a position is the next token, so the logits of a position must not depend on any token after it. A model
that looks ahead, by attention without a mask or in both directions, copies its targets: its perplexity falls below that
of any predictor, and means nothing.
"""

import random
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from porism.errors import RecipeError
from porism.tasks.language.model.own import OwnLanguageModel

ROUNDING = 1e-4
"""Of the largest logit: what mixes positions and masks them later, such as an FFT, rounds each of them anew."""
ROWS = 2
"""Of a batch, whose logits are compared: all of it is computed, since a model may count on its size."""
SCALE = 0.1
"""Deviation of numbers in place of parameters that are all zero: behind these nothing would be seen."""


def check_causal(model: OwnLanguageModel, tokens: Tensor) -> None:
    """Refuse a model whose logits change with later tokens. tokens: (T, B), a window.

    Copies of it answer, each from the same random numbers, so that the model stays as it is, with any state it keeps.
    """
    steps = len(tokens)
    before = _logits(model, tokens)
    # One token shows a look into the next position and into a block; half of them show one that a mean has diluted.
    for first in sorted({steps - 1, (steps + 1) // 2} - {0, steps}):
        other = tokens.clone()
        other[first:] = (tokens[first:] + 1) % model.vocabulary
        seeing = _first_difference(before[:first], _logits(model, other)[:first])
        if seeing is None:
            continue
        if _first_difference(before, _logits(model, tokens)) is not None:
            return  # it gives no answer twice, so that nothing follows
        raise RecipeError(
            f"language: the model sees what it predicts: its logits at position {seeing} change with the tokens from "
            f"position {first} on, expected that they depend on no later token. Use a causal mask in attention "
            "(mask=nn.Transformer.generate_square_subsequent_mask(T), is_causal=True), layers of one direction, and "
            "convolutions padded on the left."
        )


def _first_difference(before: Tensor, after: Tensor) -> int | None:
    """The first position whose logits differ by more than rounding, (T, R, V) each."""
    if torch.equal(before, after) or not before.is_floating_point():
        return None
    allowed = max(ROUNDING, 4 * torch.finfo(before.dtype).eps) * float(before.nan_to_num(0, 0, 0).abs().max())
    # What is infinite or no number on both sides is told by the loss.
    differs = (after.double() - before.double()).nan_to_num(0).abs().flatten(1).amax(1) > allowed
    return int(differs.nonzero()[0]) if bool(differs.any()) else None


def _logits(model: OwnLanguageModel, tokens: Tensor) -> Tensor:
    """Of the first rows, by a copy that is not trained, (T, R, V)."""
    state, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng([tokens.device] if tokens.is_cuda else []), torch.no_grad():
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        try:
            copy = _copied(model)
            return copy.eval().scores(tokens)[:, :ROWS].clone()
        finally:
            model.train()
            random.setstate(state)
            np.random.set_state(numpys)


def _copied(model: OwnLanguageModel) -> OwnLanguageModel:
    """A copy in which no parameter is all zero; the model itself where it has what torch does not copy."""
    try:
        copy = deepcopy(model)
    except Exception:  # such as a weight that torch.nn.utils.weight_norm has computed
        return model
    for parameter in copy.parameters():
        if parameter.requires_grad and parameter.is_floating_point() and not bool(parameter.any()):
            parameter.normal_(std=SCALE)
    return copy
