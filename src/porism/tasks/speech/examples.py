"""Utterances as a model takes them: the spectrogram, at one or several speeds, and the text in symbols."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from porism.tasks.speech.alphabet import decode, encode
from porism.tasks.speech.audio import Sound, resample
from porism.tasks.speech.features import Features
from porism.tasks.speech.utterances import Utterance


class Example(NamedTuple):
    """Features (X, C) for every speed, and tokens (T,) with start and stop."""

    name: str
    features: tuple[Tensor, ...]
    tokens: Tensor
    seconds: float

    @property
    def text(self) -> str:
        """What a model should write: the text in its alphabet, cut to its longest."""
        return decode(self.tokens.tolist())


def examples(
    utterances: Sequence[Utterance], features: Features, longest: int, speeds: Sequence[float] = (1.0,)
) -> list[Example]:
    """
    >>> examples(recordings.splits["train"], FBANK, longest=97, speeds=(0.9, 1.0, 1.1))     # doctest: +SKIP
    """

    def example(utterance: Utterance) -> Example:
        sound = utterance.sound(features.rate)
        heard = tuple(features(at_speed(sound, speed).samples) for speed in speeds)
        return Example(utterance.name, heard, torch.tensor(encode(utterance.text, longest)), sound.seconds)

    return [example(utterance) for utterance in utterances]


def at_speed(sound: Sound, speed: float) -> Sound:
    """The sound as a tape would play it: faster and higher, or slower and lower."""
    return Sound(resample(sound.samples, sound.rate, round(sound.rate / speed)), sound.rate, sound.notes)
