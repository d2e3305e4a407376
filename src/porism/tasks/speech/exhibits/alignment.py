"""Attention alignments: the cross-attention weights of a decoder, a row a symbol, a column a state of the encoder."""

import torch
from torch import Tensor

from porism.tasks.speech.data.batches import Example, collate
from porism.tasks.speech.data.symbols import EOS, SOS
from porism.tasks.speech.model.base import SpeechModel


@torch.no_grad()
def alignment(model: SpeechModel, example: Example, hypothesis: list[int]) -> Tensor:
    """The attention weights of every symbol of a hypothesis and of its eos, the mean over heads: (T, S)."""
    device = next(model.parameters()).device
    tokens = torch.tensor([SOS, *hypothesis, EOS])
    features, lengths, _ = collate(example.features[:1], [tokens], len(example.features[0]), len(tokens))
    encoder_out = model.encoder(features.to(device), lengths.to(device))
    output = model.decoder(tokens[None, :-1].to(device), model.decoder.project(encoder_out), need_weights=True)
    assert output.weights is not None
    weights: Tensor = output.weights[0].mean(0).float().cpu()
    return weights


def monotonicity(weights: Tensor) -> float:
    """The share of steps from one symbol to the next in which the mean attended position does not go back.

    >>> monotonicity(torch.eye(5))
    1.0
    """
    positions = weights @ torch.arange(weights.shape[1], dtype=weights.dtype)
    return float((positions.diff() >= 0).float().mean()) if len(positions) > 1 else 1.0
