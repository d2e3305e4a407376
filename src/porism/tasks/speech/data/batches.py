"""Utterances as a model takes them: the spectrogram, at one or several speeds, and the text in symbols."""

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

from porism.tasks.blocks.padding import pad_sequences
from porism.tasks.speech.data.audio import Sound, resample
from porism.tasks.speech.data.features import Features
from porism.tasks.speech.data.recordings import Utterance
from porism.tasks.speech.data.symbols import PAD, decode, encode
from porism.training.task import Batch


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


class Bucket(NamedTuple):
    """Examples by their number, and what they are padded to."""

    members: Tensor
    frames: int
    symbols: int


class Buckets:
    """Examples in `count` buckets of the same size, by the length of the slowest way they are said.

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
                symbols=symbols or max(len(examples[place].tokens) for place in members.tolist()),
            )
            for members in order.tensor_split(min(count, len(examples)))
        ]


class Batches(Sequence[Batch]):
    """Passes over the examples: in each all buckets shuffled and cut into batches, and these shuffled."""

    def __init__(self, buckets: Buckets, batch: int, seed: int, epoch: int, passes: int = 1) -> None:
        self.examples = buckets.examples
        luck = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        self.order: list[tuple[Bucket, Tensor, Tensor]] = []
        for _ in range(passes):
            speeds = torch.randint(len(self.examples[0].features), (len(self.examples),), generator=luck)
            cut = [
                (bucket, rows, speeds[rows])
                for bucket in buckets.buckets
                for rows in bucket.members[torch.randperm(len(bucket.members), generator=luck)].split(batch)
            ]
            self.order += [cut[place] for place in torch.randperm(len(cut), generator=luck).tolist()]

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        bucket, rows, speeds = self.order[index]
        chosen = [self.examples[row] for row in rows.tolist()]
        features = [example.features[speed] for example, speed in zip(chosen, speeds.tolist(), strict=True)]
        return collate(features, [example.tokens for example in chosen], bucket.frames, bucket.symbols)


def collate(features: Sequence[Tensor], tokens: Sequence[Tensor], frames: int, symbols: int) -> Batch:
    """One batch of spectrograms (X, C) and texts (T,), with the length of each spectrogram in the middle."""
    lengths = torch.tensor([len(x) for x in features])
    return pad_sequences(features, frames), lengths, pad_sequences(tokens, symbols, PAD)
