"""From spectrograms of any lengths to texts, and how far these are from what was said."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from porism.tasks.speech.data.batches import Example, padded
from porism.tasks.speech.data.symbols import PAD, decode
from porism.tasks.speech.metric import measure
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.encoder import Heard
from porism.tasks.speech.model.search import Search
from porism.training.task import Batch

AT_ONCE = 64
"""Recordings that are transcribed together."""


class Group(NamedTuple):
    """Some examples of like length by their places, as a batch on the model's device, and what the encoder hears."""

    places: list[int]
    batch: Batch
    heard: Heard


def hear(model: SpeechModel, examples: Sequence[Example]) -> Iterator[Group]:
    """All examples, those of like length together, as they are said."""
    device = next(model.parameters()).device
    order = sorted(range(len(examples)), key=lambda place: len(examples[place].features[0]))
    for first in range(0, len(order), AT_ONCE):
        places = order[first : first + AT_ONCE]
        features, tokens = [examples[p].features[0] for p in places], [examples[p].tokens for p in places]
        # The old loss counts padding, and so wants all of it.
        symbols = model.recipe.longest + 2 if model.recipe.padded_loss else max(map(len, tokens))
        batch = tuple(x.to(device) for x in padded(features, tokens, max(map(len, features)), symbols))
        yield Group(places, batch, model.encoder(batch[0], batch[1]))


@torch.no_grad()
def transcribe(model: SpeechModel, examples: Sequence[Example], search: Search) -> list[str]:
    """What the model writes for each."""
    texts = [""] * len(examples)
    for group in hear(model, examples):
        for place, said in zip(group.places, search(model, group.heard), strict=True):
            texts[place] = decode(said)
    return texts


@torch.no_grad()
def evaluate(model: SpeechModel, examples: Sequence[Example], search: Search) -> dict[str, float]:
    """The loss given the right symbols so far, and what is written without them, by all metrics."""
    texts = [""] * len(examples)
    loss = symbols = 0.0
    for group in hear(model, examples):
        tokens = group.batch[2]
        weight = tokens[:, 1:].numel() if model.recipe.padded_loss else int((tokens[:, 1:] != PAD).sum())
        loss += float(model.text_loss(group.heard, tokens)) * weight
        symbols += weight
        for place, said in zip(group.places, search(model, group.heard), strict=True):
            texts[place] = decode(said)
    return {**measure([example.text for example in examples], texts), "loss": loss / symbols}
