"""Recordings of like length together, padded to one of a few lengths.

>>> buckets = Buckets(examples, count=4)
>>> features, lengths, tokens = Batches(buckets, batch=16, seed=1, epoch=1)[0]        # B X C, B, B T

A bucket has one shape, whatever the luck of an epoch: a step that was made for a shape once serves it ever after.
"""

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

from porism.tasks.speech.alphabet import PAD
from porism.tasks.speech.examples import Example
from porism.training.task import Batch


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
        return padded(features, [example.tokens for example in chosen], bucket.frames, bucket.symbols)


def padded(features: Sequence[Tensor], tokens: Sequence[Tensor], frames: int, symbols: int) -> Batch:
    """One batch of spectrograms (X, C) and texts (T,), with the length of each spectrogram in the middle."""
    spectrograms = features[0].new_zeros(len(features), frames, features[0].shape[1])
    texts = tokens[0].new_full((len(tokens), symbols), PAD)
    for row, (spectrogram, text) in enumerate(zip(features, tokens, strict=True)):
        spectrograms[row, : len(spectrogram)] = spectrogram
        texts[row, : len(text)] = text
    return spectrograms, torch.tensor([len(x) for x in features]), texts
