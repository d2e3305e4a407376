"""Transcribing: from spectrograms, or a file of any length, to texts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from porism.errors import RecipeError, nearest
from porism.tasks.blocks.prediction_options import renamed
from porism.tasks.speech.data.audio import Sound
from porism.tasks.speech.data.batches import Example, collate
from porism.tasks.speech.data.features import Features
from porism.tasks.speech.data.segments import read_segments
from porism.tasks.speech.data.symbols import decode, encode
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.encoder import EncoderOutput
from porism.tasks.speech.model.search import Search
from porism.tasks.speech.recipes import SpeechRecipe
from porism.training.task import Batch, Prediction

AT_ONCE = 64
"""Recordings that are transcribed together."""


class EncodedBatch(NamedTuple):
    """Examples of similar length by their indices, as a batch on the model's device, and the encoder's output."""

    indices: list[int]
    batch: Batch
    encoder_out: EncoderOutput


def encode_all(model: SpeechModel, examples: Sequence[Example]) -> Iterator[EncodedBatch]:
    """All examples at their own speed through the encoder, those of similar length together."""
    device = next(model.parameters()).device
    order = sorted(range(len(examples)), key=lambda index: len(examples[index].features[0]))
    for first in range(0, len(order), AT_ONCE):
        indices = order[first : first + AT_ONCE]
        features, tokens = [examples[i].features[0] for i in indices], [examples[i].tokens for i in indices]
        # The published loss counts padding, so that every text has all of it.
        symbols = max(map(len, tokens)) if model.recipe.ignore_padding else model.recipe.max_target_length + 2
        batch = tuple(x.to(device) for x in collate(features, tokens, max(map(len, features)), symbols))
        yield EncodedBatch(indices, batch, model.encoder(batch[0], batch[1]))


@torch.no_grad()
def transcribe(model: SpeechModel, examples: Sequence[Example], search: Search) -> list[str]:
    """The model's hypothesis for each example."""
    texts: dict[int, str] = {}
    for encoded in encode_all(model, examples):
        texts |= decode_batch(model, encoded, search)
    return [texts[index] for index in range(len(examples))]


def decode_batch(model: SpeechModel, encoded: EncodedBatch, search: Search) -> dict[int, str]:
    """The hypotheses by the indices of the examples."""
    hypotheses = search(model, encoded.encoder_out)
    return {index: decode(tokens) for index, tokens in zip(encoded.indices, hypotheses, strict=True)}


OPTIONS = {
    "search": "greedy, ctc or beam",
    "beam_size": "a whole number from 1 on",
    "ctc_weight": "a number from 0 to 1",
    "length_bonus": "a number",
}
"""Options of a transcription, with the values they take."""
OLD_OPTIONS = {"beam": "beam_size", "length": "length_bonus"}
"""Options under the names of 0.1."""


def transcribe_file(model: SpeechModel, path: str, features: Features, search: Search, seconds: float) -> Prediction:
    """The text of a recording of any length, in segments of at most `seconds`, cut at pauses.

    Only as many segments as are transcribed together are in memory.
    """
    texts: list[str] = []
    notes: tuple[str, ...] = ()
    waiting: list[Example] = []
    for segment in read_segments(Path(path).expanduser(), features.rate, seconds):
        notes = notes or segment.notes
        waiting.append(_unlabelled(segment, features))
        if len(waiting) == AT_ONCE:
            texts += transcribe(model, waiting, search)
            waiting = []
    if waiting:
        texts += transcribe(model, waiting, search)
    if len(texts) > 1:
        # The last note of a segment is its position.
        notes = (*notes[:-1], f"transcribed in {len(texts)} segments of at most {seconds:.1f} s, cut at pauses")
    return Prediction(path, " ".join(filter(None, texts)), notes, {"pieces": texts})


def search_for(recipe: SpeechRecipe, options: Mapping[str, Any] | None = None) -> Search:
    """The recipe's search, changed by the options."""
    options = renamed(options or {}, OLD_OPTIONS)
    _check(options)
    search = Search(recipe.search, recipe.beam_size, recipe.decode_ctc_weight, recipe.length_bonus)
    of_beam = {name: value for name, value in options.items() if name != "search"}
    if of_beam:
        search = replace(search, kind="beam", **of_beam)
    return replace(search, kind=options["search"]) if "search" in options else search


def _check(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            raise RecipeError(f"transcribing has no option {key!r}. {nearest(key, list(OPTIONS))}")
        fits = {
            "search": value in ("greedy", "ctc", "beam"),
            "beam_size": _is_number(value) and isinstance(value, int) and value >= 1,
            "ctc_weight": _is_number(value) and 0 <= value <= 1,
            "length_bonus": _is_number(value),
        }
        if not fits[key]:
            raise RecipeError(f"transcribing: {key} takes {OPTIONS[key]}, got {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _unlabelled(sound: Sound, features: Features) -> Example:
    """A recording without a transcript."""
    return Example("", (features(sound.samples),), torch.tensor(encode("")), sound.seconds, "")
