"""The training text chunk by chunk, as tokens or as pairs, the next chunk read while this one is trained on."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.layers.skipgram.noise import Noise
from porism.tasks.blocks.batches import LazyBatches
from porism.tasks.words.data.corpus import Reader, StreamedCorpus
from porism.tasks.words.data.token_map import TokenMap
from porism.tasks.words.model.trainer import END
from porism.training.task import Batch


class Chunks(LazyBatches):
    """Chunks as (tokens, position): word ids (T,) of int32 with -1 between sentences, and (2,): the number of words
    before the chunk, and in it.

    >>> tokens, position = Chunks(corpus)[0]

    Tokens that fill at most half of the memory are cached: those that counting has kept, or each chunk once it is read.
    Those of a larger text are written to a file, which is mapped (`TokenMap`).
    """

    def __init__(self, corpus: StreamedCorpus) -> None:
        self._corpus = corpus
        self._reader = Reader(corpus.texts["train"])
        self._map = None if corpus.reading.has_room(corpus.words) else TokenMap.of(corpus)
        self._cached: dict[int, Batch] = {}
        # One thread, since a file has one reading position.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="words")
        self._ahead: tuple[int, Future[Batch]] | None = None

    def __len__(self) -> int:
        return len(self._corpus)

    @property
    def mapped(self) -> Path | None:
        """The folder of the file with the tokens; None where they are cached."""
        return None if self._map is None else self._map.folder

    def batch(self, number: int) -> Batch:
        if number in self._cached:
            return self._cached[number]
        if self._corpus.kept is not None:
            return self._cached.setdefault(number, self._read(number))
        future = self._ahead[1] if self._ahead and self._ahead[0] == number else self._submit(number)
        following = (number + 1) % len(self)
        self._ahead = None if following in self._cached else (following, self._submit(following))
        batch = future.result()
        if self._map is None:
            self._cached[number] = batch
        return batch

    def _submit(self, number: int) -> Future[Batch]:
        return self._thread.submit(self._read, number)

    def _read(self, number: int) -> Batch:
        chunk = self._corpus.chunk(number)
        if self._corpus.kept is not None:
            tokens = self._corpus.kept[number]
        elif self._map is not None:
            tokens = self._map.chunk(number)
        else:
            tokens = self._corpus.tokens(chunk, self._reader).tokens
        return torch.from_numpy(tokens), torch.tensor([chunk.previous, chunk.words])


class CorpusPass(LazyBatches):
    """One of several passes through the text: positions continue from the previous passes."""

    def __init__(self, chunks: Chunks, words_before: int) -> None:
        self._chunks = chunks
        self._previous = torch.tensor([words_before, 0])

    def __len__(self) -> int:
        return len(self._chunks)

    def batch(self, number: int) -> Batch:
        tokens, position = self._chunks[number]
        return tokens, position + self._previous


def part_of_chunk(batch: Batch, rank: int, size: int) -> Batch:
    """The sentences of a chunk that one of several processes takes: a range of it, cut where a sentence ends.

    >>> tokens, position = torch.tensor([5, 6, -1, 7, 8, 9, -1]), torch.tensor([100, 8])
    >>> [part_of_chunk((tokens, position), rank, 2) for rank in (0, 1)]
    [(tensor([ 5,  6, -1]), tensor([100,   2])), (tensor([ 7,  8,  9, -1]), tensor([102,   3]))]

    Positions count known words, so that no two parts have the same: what is drawn at random depends on it.
    """
    tokens, position = batch
    # Each of `size` equal ranges goes on to the end of the sentence that it would end in.
    ends = pad((tokens == END).nonzero().squeeze(1) + 1, (1, 0))
    goals = torch.arange(size + 1, device=tokens.device) * len(tokens) // size
    first, last = ends[torch.searchsorted(ends, goals[rank : rank + 2])].tolist()
    known = [int((tokens[start:end] >= 0).sum()) for start, end in ((0, first), (first, last))]
    return tokens[first:last], position.new_tensor([int(position[0]) + known[0], known[1]])


def draw_pairs(
    tokens: Tensor, keep: Tensor, window: int, generator: torch.Generator, positions: bool = False
) -> Tensor:
    """Drops frequent words at random, then pairs each word with those up to a random distance of 1 to `window`.

    >>> pairs = draw_pairs(torch.tensor([5, 6, -1, 7]), torch.ones(8), window=1, generator=torch.Generator())
    >>> pairs.tolist()                                  # -1 ends a sentence
    [[5, 6], [6, 5]]

    positions: whether the position of the word among the tokens stands beside each pair.

    Shapes: tokens (T,), keep (V,) the probability to keep a word -> (P, 2), or (P, 3) with positions.
    """
    tokens = tokens.long()
    ends = tokens < 0
    kept = ends | (torch.rand(len(tokens), generator=generator) < keep[tokens.clamp(min=0)])
    tokens, where = tokens[kept], kept.nonzero().squeeze(1)
    reach = torch.randint(1, window + 1, (len(tokens),), generator=generator)
    ends = tokens < 0
    sentence = ends.cumsum(0)
    pairs = [tokens.new_empty(0, 3 if positions else 2)]
    for distance in range(1, min(window, len(tokens) - 1) + 1):
        left, right = slice(None, -distance), slice(distance, None)
        together = (sentence[left] == sentence[right]) & ~ends[left] & ~ends[right]
        for word, context in ((left, right), (right, left)):
            chosen = together & (reach[word] >= distance)
            both = [tokens[word][chosen], tokens[context][chosen]]
            pairs.append(torch.stack([*both, where[word][chosen]] if positions else both, 1))
    return torch.cat(pairs)


class Sampling(NamedTuple):
    """So many words drawn from the noise for each pair."""

    noise: Noise
    negative: int


class Pairs(LazyBatches):
    """A pass through a text as (words, contexts, negatives, position): the pairs (P,) of each chunk, the words that
    are sampled for them (P, m), and the chunk's position. Without sampling there are no negatives among them.

    The random numbers depend on the seed, the pass and the chunk alone: several processes that share a batch have the
    negatives of one.
    """

    def __init__(
        self, chunks: Chunks, keep: Tensor, window: int, seeds: tuple[int, int], sampling: Sampling | None = None
    ) -> None:
        self._chunks, self._keep, self._window = chunks, keep, window
        self._seeds, self._sampling = seeds, sampling

    def __len__(self) -> int:
        return len(self._chunks)

    def batch(self, number: int) -> Batch:
        tokens, position = self._chunks[number]
        generator = seeded_generator(*self._seeds, number)
        pairs = draw_pairs(tokens, self._keep, self._window, generator)
        words, contexts = pairs.T.contiguous()
        if self._sampling is None:
            return words, contexts, position
        noise, negative = self._sampling
        return words, contexts, noise.draw((len(pairs), negative), generator), position


def seeded_generator(*seeds: int) -> torch.Generator:
    """A generator that depends on all of the seeds."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> 1))
