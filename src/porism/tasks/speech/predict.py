"""What a trained model hears in a file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from porism.errors import RecipeError, nearest
from porism.tasks.speech.data.audio import Sound
from porism.tasks.speech.data.batches import Example
from porism.tasks.speech.data.features import Features
from porism.tasks.speech.data.segments import read_pieces
from porism.tasks.speech.data.symbols import encode
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.search import Search
from porism.tasks.speech.recipes import SpeechRecipe
from porism.tasks.speech.transcribe import AT_ONCE, transcribe
from porism.training.task import Sample

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
    search = Search(recipe.search, recipe.beam, recipe.ctc_search, recipe.bonus)
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
