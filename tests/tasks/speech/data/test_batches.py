"""UtteranceBatches: all examples once a pass, of few shapes, in an order that seed and epoch decide."""

from collections import Counter

import pytest
import torch

from porism.tasks.speech.data.batches import Buckets, Example, UtteranceBatches, collate
from porism.tasks.speech.data.symbols import EOS, PAD, SOS


def some(count: int, speeds: int = 1) -> list[Example]:
    """Example n has the number n everywhere, and a length of its own."""
    return [
        Example(
            name=str(n),
            features=tuple(torch.full((1 + (7 * n) % 40 + speed, 3), float(n)) for speed in range(speeds)),
            tokens=torch.tensor([SOS, *[4] * (n % 9), EOS]),
            seconds=1.0,
            text=" " * (n % 9),
        )
        for n in range(count)
    ]


def seen(batches: UtteranceBatches) -> list[list[int]]:
    return [[int(row[0, 0]) for row in features] for features, _, _ in batches]


@pytest.mark.parametrize("count", [1, 2, 7, 63])
def test_a_pass_has_every_example_once(count: int) -> None:
    batches = UtteranceBatches(Buckets(some(count), 4), batch=5, seed=1, epoch=1)
    assert Counter(n for batch in seen(batches) for n in batch) == Counter(range(count))
    assert len(batches[:]) == len(batches)


def test_passes_of_an_epoch_differ() -> None:
    batches = seen(UtteranceBatches(Buckets(some(63), 4), batch=5, seed=1, epoch=1, passes=3))
    assert Counter(n for batch in batches for n in batch) == Counter(3 * list(range(63)))
    size = len(batches) // 3
    assert batches[:size] != batches[size : 2 * size]


def test_shapes_are_few_and_the_same_in_every_epoch() -> None:
    buckets = Buckets(some(63, speeds=3), 4)

    def shapes(epoch: int) -> set[tuple[torch.Size, ...]]:
        return {tuple(x.shape for x in batch) for batch in UtteranceBatches(buckets, batch=4, seed=1, epoch=epoch)}

    assert shapes(1) == shapes(2)
    # Each bucket's whole batches, and the rest of it.
    assert len(shapes(1)) <= 8


def test_recordings_of_like_length_are_together() -> None:
    examples = some(63)
    one, many = (
        sum(features.numel() for features, _, _ in UtteranceBatches(Buckets(examples, count), 4, seed=1, epoch=1))
        for count in (1, 8)
    )
    assert many < 0.7 * one


def test_the_order_is_that_of_seed_and_epoch() -> None:
    buckets = Buckets(some(63), 4)
    first = seen(UtteranceBatches(buckets, 4, seed=1, epoch=1))
    assert first == seen(UtteranceBatches(buckets, 4, seed=1, epoch=1))
    assert first != seen(UtteranceBatches(buckets, 4, seed=1, epoch=2))
    assert first != seen(UtteranceBatches(buckets, 4, seed=2, epoch=1))


def test_every_speed_is_drawn() -> None:
    buckets = Buckets(some(63, speeds=3), 4)
    extra = {
        int(length) - 1 - (7 * int(row[0, 0])) % 40
        for epoch in (1, 2)
        for features, lengths, _ in UtteranceBatches(buckets, 4, seed=1, epoch=epoch)
        for row, length in zip(features, lengths, strict=True)
    }
    assert extra == {0, 1, 2}


def test_texts_are_padded_as_asked() -> None:
    _, _, tokens = UtteranceBatches(Buckets(some(7), 1, symbols=99), 7, seed=1, epoch=1)[0]
    assert tokens.shape == (7, 99)
    features, lengths, tokens = collate([torch.ones(2, 3)], [torch.tensor([SOS, EOS])], frames=4, symbols=3)
    assert features.sum((0, 2)).tolist() == [3, 3, 0, 0]
    assert (lengths.tolist(), tokens.tolist()) == ([2], [[SOS, EOS, PAD]])
