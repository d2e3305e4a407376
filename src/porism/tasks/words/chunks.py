"""The training text piece by piece, the next one read while a kernel is at work on this one."""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import overload

import torch

from porism.tasks.words.corpus import MIB, Corpus
from porism.tasks.words.texts import Reader
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
