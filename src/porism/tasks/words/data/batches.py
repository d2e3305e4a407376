"""The training text piece by piece, the next one read while a kernel is at work on this one."""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import overload

import numpy as np
import torch
from torch import Tensor

from porism.tasks.words.data.corpus import MIB, Corpus, Reader
from porism.training.task import Batch

BYTES_A_TOKEN = 4


class Batches(Sequence[Batch]):
    """Batches that are made when they are asked for."""

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """The one with this number."""

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self.batch(number) for number in range(*index.indices(len(self)))]
        return self.batch(range(len(self))[index])


class Chunks(Batches):
    """Pieces as (tokens, place): numbers of words (T,) of int32 with -1 between sentences, and (2,): the words of the
    text before the piece, and in it.

    >>> tokens, place = Chunks(corpus)[0]

    The numbers of a text that fills at most half of the memory are kept. Any other is read anew in each pass.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._reader = Reader(corpus.texts["train"])
        self._fits = 2 * BYTES_A_TOKEN * corpus.words <= corpus.reading.memory * MIB
        self._kept: dict[int, Batch] = {}
        # One thread, since a file is read at one place at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="words")
        self._ahead: tuple[int, Future[Batch]] | None = None

    def __len__(self) -> int:
        return len(self._corpus)

    def batch(self, number: int) -> Batch:
        if number in self._kept:
            return self._kept[number]
        coming = self._ahead[1] if self._ahead and self._ahead[0] == number else self._ask(number)
        following = (number + 1) % len(self)
        self._ahead = None if following in self._kept else (following, self._ask(following))
        batch = coming.result()
        if self._fits:
            self._kept[number] = batch
        return batch

    def _ask(self, number: int) -> Future[Batch]:
        return self._thread.submit(self._read, number)

    def _read(self, number: int) -> Batch:
        piece = self._corpus.piece(number)
        tokens, words, _ = self._corpus.numbered(piece, self._reader)
        return torch.from_numpy(tokens), torch.tensor([piece.before, words])


class Pass(Batches):
    """One of several passes through the text: places count on from the passes before."""

    def __init__(self, chunks: Chunks, words_before: int) -> None:
        self._chunks = chunks
        self._before = torch.tensor([words_before, 0])

    def __len__(self) -> int:
        return len(self._chunks)

    def batch(self, number: int) -> Batch:
        tokens, place = self._chunks[number]
        return tokens, place + self._before


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
