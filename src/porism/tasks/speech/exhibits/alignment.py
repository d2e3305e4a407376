"""Where a decoder looks while it writes: a row a symbol, a column a state of the encoder."""

import torch
from torch import Tensor

from porism.tasks.speech.data.batches import Example, collate
from porism.tasks.speech.data.symbols import START, STOP
from porism.tasks.speech.model.base import SpeechModel


@torch.no_grad()
def alignment(model: SpeechModel, example: Example, said: list[int]) -> Tensor:
    """The weights of every symbol that is said and of the stop behind them, the mean over heads: (T, S)."""
    device = next(model.parameters()).device
    tokens = torch.tensor([START, *said, STOP])
    features, lengths, _ = collate(example.features[:1], [tokens], len(example.features[0]), len(tokens))
    heard = model.encoder(features.to(device), lengths.to(device))
    decoded = model.decoder(tokens[None, :-1].to(device), model.decoder.look(heard), need_weights=True)
    assert decoded.weights is not None
    weights: Tensor = decoded.weights[0].mean(0).float().cpu()
    return weights


def monotony(weights: Tensor) -> float:
    """The share of steps from one symbol to the next in which the place looked at does not go back.

    >>> monotony(torch.eye(5))
    1.0
    """
    places = weights @ torch.arange(weights.shape[1], dtype=weights.dtype)
    return float((places.diff() >= 0).float().mean()) if len(places) > 1 else 1.0
