"""Pairs of a word and a context, as skip-gram draws them from a text."""

import numpy as np
import torch
from torch import Tensor

from porism.tasks.words.chunks import Batches, Chunks
from porism.training.task import Batch


def draw_pairs(tokens: Tensor, keep: Tensor, window: int, draw: torch.Generator) -> Tensor:
    """Frequent words are dropped at random; then each word is paired with those up to 1 to `window` places away.

    >>> pairs = draw_pairs(torch.tensor([5, 6, -1, 7]), torch.ones(8), window=1, draw=torch.Generator())
    >>> pairs.tolist()                                  # -1 ends a sentence
    [[5, 6], [6, 5]]

    Shapes: tokens (T,), keep (V,) the probability to keep a word -> (P, 2).
    """
    tokens = tokens.long()
    ends = tokens < 0
    tokens = tokens[ends | (torch.rand(len(tokens), generator=draw) < keep[tokens.clamp(min=0)])]
    reach = torch.randint(1, window + 1, (len(tokens),), generator=draw)
    ends = tokens < 0
    sentence = ends.cumsum(0)
    found = [tokens.new_empty(0, 2)]
    for distance in range(1, min(window, len(tokens) - 1) + 1):
        left, right = slice(None, -distance), slice(distance, None)
        together = (sentence[left] == sentence[right]) & ~ends[left] & ~ends[right]
        for word, context in ((left, right), (right, left)):
            chosen = together & (reach[word] >= distance)
            found.append(torch.stack([tokens[word][chosen], tokens[context][chosen]], 1))
    return torch.cat(found)


class Pairs(Batches):
    """A pass through a text as (words, contexts, place): the pairs (P,) of each piece, and its place.

    What is drawn hangs on the seed, the pass and the piece alone.
    """

    def __init__(self, chunks: Chunks, keep: Tensor, window: int, seed: int, epoch: int) -> None:
        self._chunks, self._keep, self._window = chunks, keep, window
        self._seeds = (seed, epoch)

    def __len__(self) -> int:
        return len(self._chunks)

    def batch(self, number: int) -> Batch:
        tokens, place = self._chunks[number]
        pairs = draw_pairs(tokens, self._keep, self._window, generator(*self._seeds, number))
        return *pairs.T.contiguous(), place


def generator(*seeds: int) -> torch.Generator:
    """One that no other seeds have."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> 1))
