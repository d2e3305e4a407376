"""The words that get a vector with their counts in the training text, and the hash table that counts them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError, MissingExtra, advise, fields, shown
from porism.tasks.words.model.trainer import END

EMPTY = -1
TRAIN = -1
"""All sentences that are not held out."""


@dataclass(frozen=True)
class Split:
    """The sentences of a split: of each `every`, one is for valid, one for test, the rest for training.

    With `every` 0 none is held out.
    """

    every: int = 0
    remainder: int = TRAIN

    @classmethod
    def of(cls, name: str, every: int) -> Self:
        return cls(every, {"train": TRAIN, "valid": every // 2, "test": every - 1}[name])


class TokenizedChunk(NamedTuple):
    """A chunk of text as word ids (T,), -1 between sentences; its number of words, known or not; the next sentence."""

    tokens: NDArray[np.int32]
    words: int
    sentence: int


ALL = Split()


class WordTable:
    """A hash table of words and their ids: word n is letters[starts[n] : starts[n + 1]]."""

    def __init__(self, words: Sequence[bytes] = ()) -> None:
        self._kernels = kernels("tokenize_numba")
        self._size = 0
        self._letters = np.zeros(0, np.uint8)
        self._starts = np.zeros(1, np.int64)
        self._keys = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)
        self._slots = np.full(1, EMPTY, np.int32)
        if words:
            self._reserve(len(words), sum(map(len, words)))
            self._tokenize(b" ".join(words), 0, ALL, add=True)
            self._counts[:] = 0

    def __len__(self) -> int:
        return self._size

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of times that `count` has seen each word."""
        return self._counts[: self._size]

    def words(self) -> list[bytes]:
        """In the order of their numbers."""
        letters, starts = self._letters.tobytes(), self._starts[: self._size + 1].tolist()
        return [letters[start:end] for start, end in pairwise(starts)]

    def count(self, chunk: bytes, sentence: int = 0, split: Split = ALL) -> TokenizedChunk:
        """Counts the words of a chunk of text, whose first sentence has this number; new words get the next ids."""
        # A word takes a letter and a space at least.
        self._reserve((len(chunk) + 1) // 2, len(chunk))
        return self._tokenize(chunk, sentence, split, add=True)

    def merge(self, words: bytes, counts: NDArray[np.int64]) -> None:
        """Adds what another table has counted. words: each once, with a space between.

        >>> table = WordTable()
        >>> _ = table.count(b"so rain so")
        >>> table.merge(b"sun so", np.array([4, 1]))
        >>> table.words(), table.counts
        ([b'so', b'rain', b'sun'], array([3, 1, 4]))
        """
        self._reserve(len(counts), len(words))
        tokens = self._tokenize(words, 0, ALL, add=True).tokens
        # Each was counted once as it was entered.
        self._counts[tokens[tokens >= 0]] += counts - 1

    def tokenize(self, chunk: bytes, sentence: int = 0, split: Split = ALL) -> TokenizedChunk:
        """The chunk as word ids. Unknown words are left out, which makes their neighbours adjacent, as in word2vec."""
        tokenized = self._tokenize(chunk, sentence, split, add=False)
        return tokenized._replace(tokens=tokenized.tokens[tokenized.tokens >= END])

    def without_rare(self, most: int) -> "WordTable":
        """A table of the words that were seen more than `most` times, with new ids."""
        kept = self.counts > most
        smaller = WordTable([word for word, keep in zip(self.words(), kept.tolist(), strict=True) if keep])
        smaller.counts[:] = self.counts[kept]
        return smaller

    def _tokenize(self, chunk: bytes, sentence: int, split: Split, add: bool) -> TokenizedChunk:
        # At most a token for each byte, and the ends of sentences of the greatest length.
        tokens = np.empty(len(chunk) + len(chunk) // self._kernels.LONGEST + 1, np.int32)
        size, words, self._size, following = self._kernels.tokenize(
            *(np.frombuffer(chunk, np.uint8), sentence, split.every, split.remainder, add),
            *(self._slots, self._keys, self._starts, self._letters, self._counts, self._size, tokens),
        )
        return TokenizedChunk(tokens[:size], int(words), int(following))

    def _reserve(self, words: int, letters: int) -> None:
        """Room for so many more words and letters."""
        words, letters = self._size + words, int(self._starts[self._size]) + letters
        if len(self._letters) < letters:
            self._letters = _grown(self._letters, letters)
        if len(self._keys) < words:
            self._keys, self._counts = _grown(self._keys, words), _grown(self._counts, words)
            self._starts = _grown(self._starts, words + 1)
        if len(self._slots) < 2 * words:
            self._slots = np.full(1 << (2 * words - 1).bit_length(), EMPTY, np.int32)
            self._kernels.fill(self._slots, self._keys, self._size)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with zeros after it, at least half as many again, so that growing is rare."""
    grown = np.zeros(max(size, len(array) + len(array) // 2), array.dtype)
    grown[: len(array)] = array
    return grown


def kernels(name: str) -> ModuleType:
    """A module beside this one that numba compiles."""
    try:
        return import_module(f"{__package__}.{name}")
    except ImportError:
        raise MissingExtra('reading words needs numba, which is not installed: pip install "porism[words]"') from None


@dataclass(frozen=True)
class WordCounts:
    """The vocabulary with its counts, most frequent first, equal ones in alphabetical order.

    >>> vocabulary = WordCounts(("the", "cat"), (12, 5))
    >>> vocabulary.index["cat"], "dog" in vocabulary, len(vocabulary)
    (1, False, 2)
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def counted(cls, table: WordTable, least_count: int, source: str) -> Self:
        """The words of a table that were seen often enough."""
        words, counts = table.words(), table.counts
        if not words:
            raise DataError(f"{source}: empty, no word in it. Give a file with text.")
        if len(words) == 1:
            raise DataError(f"{source}: one word only, {shown(words[0].decode())}, without a context. Give more text.")
        often: list[int] = np.flatnonzero(counts >= least_count).tolist()
        if len(often) < 2:
            top = int(counts.argmax())
            few = "only one word comes" if often else "no word comes"
            raise DataError(
                f"{source}: {few} {least_count} times or more; the most frequent, {shown(words[top].decode())}, comes "
                f"{counts[top]} times.",
                advise("Use {}, or give more text.", fields(min_count=1)),
            )
        often.sort(key=lambda number: (-counts[number], words[number]))
        return cls(tuple(words[number].decode() for number in often), tuple(counts[often].tolist()))

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Self:
        words = msgspec.convert(known["words"], tuple[str, ...])
        counts = msgspec.convert(known["counts"], tuple[int, ...])
        if len(words) != len(counts):
            raise ValueError(f"{len(words)} words with {len(counts)} counts")
        return cls(words, counts)

    def to_json(self) -> dict[str, Any]:
        return {"words": list(self.words), "counts": list(self.counts)}

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words)}

    @property
    def frequencies(self) -> NDArray[np.int64]:
        return np.array(self.counts, dtype=np.int64)

    def sha256(self) -> str:
        """Of the words and their counts: vectors belong to one vocabulary."""
        lines = (f"{word} {count}\n" for word, count in zip(self.words, self.counts, strict=True))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def word_table(self) -> WordTable:
        """The table that turns text into the ids of these words."""
        return WordTable([word.encode() for word in self.words])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index
