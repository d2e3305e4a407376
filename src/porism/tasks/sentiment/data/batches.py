"""Reviews as batches of tensors, texts of similar length together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from porism.tasks.blocks.batches import LazyBatches, shuffled_batches
from porism.tasks.blocks.padding import pad_sequences
from porism.tasks.sentiment.data.reviews import Review
from porism.tasks.sentiment.data.tokenizer import ReviewTokenizer


class TokenizedReview(NamedTuple):
    """Token ids (T,), the class, and how many tokens the text had before it was truncated."""

    ids: Tensor
    label: int
    whole: int


class TokenBatch(NamedTuple):
    """Token ids (B, T) with padding after each text, lengths (B,) and classes (B,)."""

    tokens: Tensor
    lengths: Tensor
    labels: Tensor


def encode_reviews(reviews: Sequence[Review], tokenizer: ReviewTokenizer, max_length: int) -> list[TokenizedReview]:
    """The reviews as a model takes them."""
    encoded = (tokenizer.encode(review.text, max_length) for review in reviews)
    return [
        # A text of which the tokenizer leaves no token is one unknown word.
        TokenizedReview(torch.tensor(found.ids or [tokenizer.unk or 0]), review.label, found.whole)
        for review, found in zip(reviews, encoded, strict=True)
    ]


def collate(examples: Sequence[TokenizedReview], length: int, pad: int) -> TokenBatch:
    """One batch, padded to `length` tokens."""
    return TokenBatch(
        pad_sequences([example.ids for example in examples], length, pad),
        torch.tensor([len(example.ids) for example in examples]),
        torch.tensor([example.label for example in examples]),
    )


class ReviewBatches(LazyBatches):
    """One pass: texts in buckets by length, each bucket shuffled and cut into batches, then the batches shuffled."""

    def __init__(
        self, examples: Sequence[TokenizedReview], pad: int, batch_size: int, num_buckets: int, seed: int, epoch: int
    ) -> None:
        self.examples, self.pad = examples, pad
        draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        lengths = torch.tensor([len(example.ids) for example in examples])
        buckets = lengths.argsort(stable=True).tensor_split(min(num_buckets, len(examples)))
        longest = [int(lengths[members].max()) for members in buckets]
        self.order = [(rows, longest[number]) for number, rows in shuffled_batches(buckets, batch_size, draw)]

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, number: int) -> TokenBatch:
        rows, length = self.order[number]
        return collate([self.examples[row] for row in rows.tolist()], length, self.pad)


def evaluation_batches(
    examples: Sequence[TokenizedReview], pad: int, batch_size: int
) -> Iterator[tuple[Tensor, TokenBatch]]:
    """All examples, the shortest first, with the rows (B,) each batch has of them."""
    lengths = torch.tensor([len(example.ids) for example in examples])
    for rows in lengths.argsort(stable=True).split(batch_size):
        yield rows, collate([examples[row] for row in rows.tolist()], int(lengths[rows].max()), pad)
