"""From spectrograms of any lengths to texts, and how far these are from what was said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from porism.errors import RecipeError, nearest
from porism.tasks.speech.data.audio import Sound
from porism.tasks.speech.data.batches import Example, collate
from porism.tasks.speech.data.features import Features
from porism.tasks.speech.data.segments import read_pieces
from porism.tasks.speech.data.symbols import decode, encode
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.encoder import Heard
from porism.tasks.speech.model.search import Search
from porism.tasks.speech.recipes import SpeechRecipe
from porism.training.task import Batch, Sample

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
        symbols = max(map(len, tokens)) if model.recipe.ignore_padding else model.recipe.max_target_length + 2
        batch = tuple(x.to(device) for x in collate(features, tokens, max(map(len, features)), symbols))
        yield Group(places, batch, model.encoder(batch[0], batch[1]))


@torch.no_grad()
def transcribe(model: SpeechModel, examples: Sequence[Example], search: Search) -> list[str]:
    """What the model writes for each."""
    texts = [""] * len(examples)
    for group in hear(model, examples):
        for place, said in zip(group.places, search(model, group.heard), strict=True):
            texts[place] = decode(said)
    return texts


OPTIONS = {"search": "greedy, ctc or beam", "beam": "a whole number from 1 on", "length": "a number"}
"""Of a transcription, with what they take."""


def transcribe_file(model: SpeechModel, path: str, features: Features, search: Search, seconds: float) -> Sample:
    """The text of a recording of any length, in pieces of at most `seconds`, cut where it is quiet.

    Only as many pieces as are transcribed together are in memory.
    """
    texts: list[str] = []
    notes: tuple[str, ...] = ()
    waiting: list[Example] = []
    for piece in read_pieces(Path(path).expanduser(), features.rate, seconds):
        notes = notes or piece.notes
        waiting.append(_unsaid(piece, features))
        if len(waiting) == AT_ONCE:
            texts += transcribe(model, waiting, search)
            waiting = []
    if waiting:
        texts += transcribe(model, waiting, search)
    if len(texts) > 1:
        # The last note of a piece tells where it lies.
        notes = (*notes[:-1], f"transcribed in {len(texts)} pieces of at most {seconds:.1f} s, cut where it is quiet")
    return Sample(path, " ".join(filter(None, texts)), notes, {"pieces": texts})


def search_for(recipe: SpeechRecipe, options: Mapping[str, Any] | None = None) -> Search:
    """The recipe's search, with what the options say."""
    options = options or {}
    _check(options)
    search = Search(recipe.search, recipe.beam_size, recipe.decode_ctc_weight, recipe.length_bonus)
    if options.keys() & {"beam", "length"}:
        search = replace(
            search, kind="beam", beam=options.get("beam", search.beam), bonus=options.get("length", search.bonus)
        )
    return replace(search, kind=options["search"]) if "search" in options else search


def _check(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            raise RecipeError(f"transcribing has no option {key!r}. {nearest(key, list(OPTIONS))}")
        fits = {
            "search": value in ("greedy", "ctc", "beam"),
            "beam": isinstance(value, int) and value >= 1,
            "length": isinstance(value, int | float),
        }
        if not fits[key]:
            raise RecipeError(f"transcribing: {key} takes {OPTIONS[key]}, got {value!r}. Write --set {key}=VALUE.")


def _unsaid(sound: Sound, features: Features) -> Example:
    """A recording of which nobody knows what is said."""
    return Example("", (features(sound.samples),), torch.tensor(encode("")), sound.seconds)
