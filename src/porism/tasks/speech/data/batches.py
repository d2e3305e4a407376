"""Utterances as batches of tensors: spectrograms, at one or several speeds, and texts as tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from porism.tasks.blocks.batches import LazyBatches, shuffled_batches
from porism.tasks.blocks.padding import pad_sequences
from porism.tasks.speech.data.audio import Sound, resample
from porism.tasks.speech.data.features import Features
from porism.tasks.speech.data.recordings import Utterance
from porism.tasks.speech.data.symbols import PAD, decode, encode
from porism.training.task import Batch


class Example(NamedTuple):
    """Features (X, C) for every speed, tokens (T,) with sos and eos, and the reference of a hypothesis."""

    name: str
    features: tuple[Tensor, ...]
    tokens: Tensor
    seconds: float
    text: str


def examples(
    utterances: Sequence[Utterance],
    features: Features,
    longest: int,
    speeds: Sequence[float] = (1.0,),
    whole_references: bool = True,
) -> list[Example]:
    """Tokens are of the first `longest` characters, references of the whole text in lower case, or of the tokens.

    >>> examples(recordings.splits["train"], FBANK, longest=97, speeds=(0.9, 1.0, 1.1))     # doctest: +SKIP
    """

    def example(utterance: Utterance) -> Example:
        sound = utterance.sound(features.rate)
        spectrograms = tuple(features(at_speed(sound, speed).samples) for speed in speeds)
        tokens = encode(utterance.text, longest)
        reference = utterance.text.lower() if whole_references else decode(tokens)
        return Example(utterance.name, spectrograms, torch.tensor(tokens), sound.seconds, reference)

    return [example(utterance) for utterance in utterances]


def at_speed(sound: Sound, speed: float) -> Sound:
    """Speed perturbation: the sound resampled, faster and higher, or slower and lower."""
    return Sound(resample(sound.samples, sound.rate, round(sound.rate / speed)), sound.rate, sound.notes)


class Bucket(NamedTuple):
    """Indices of examples, and the sizes they are padded to."""

    members: Tensor
    frames: int
    symbols: int


class Buckets:
    """Examples in `count` buckets of the same size, by the length of their slowest copy.

    `symbols` pads every text to so many symbols, else to the longest of its bucket.
    """

    def __init__(self, examples: Sequence[Example], count: int, symbols: int | None = None) -> None:
        self.examples = examples
        lengths = torch.tensor([max(len(x) for x in example.features) for example in examples])
        order = lengths.argsort(stable=True)
        self.buckets = [
            Bucket(
                members,
                frames=int(lengths[members].max()),
                symbols=symbols or max(len(examples[index].tokens) for index in members.tolist()),
            )
            for members in order.tensor_split(min(count, len(examples)))
        ]


class UtteranceBatches(LazyBatches):
    """Passes over the examples: in each, buckets are shuffled and cut into batches, and these are shuffled."""

    def __init__(self, buckets: Buckets, batch: int, seed: int, epoch: int, passes: int = 1) -> None:
        self.examples = buckets.examples
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        self.order: list[tuple[Bucket, Tensor, Tensor]] = []
        for _ in range(passes):
            speeds = torch.randint(len(self.examples[0].features), (len(self.examples),), generator=generator)
            members = [bucket.members for bucket in buckets.buckets]
            self.order += [
                (buckets.buckets[number], rows, speeds[rows])
                for number, rows in shuffled_batches(members, batch, generator)
            ]

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, number: int) -> Batch:
        bucket, rows, speeds = self.order[number]
        examples = [self.examples[row] for row in rows.tolist()]
        features = [example.features[speed] for example, speed in zip(examples, speeds.tolist(), strict=True)]
        return collate(features, [example.tokens for example in examples], bucket.frames, bucket.symbols)


def collate(features: Sequence[Tensor], tokens: Sequence[Tensor], frames: int, symbols: int) -> Batch:
    """One batch of spectrograms (X, C) and texts (T,), with the length of each spectrogram in the middle."""
    lengths = torch.tensor([len(x) for x in features])
    return pad_sequences(features, frames), lengths, pad_sequences(tokens, symbols, PAD)
