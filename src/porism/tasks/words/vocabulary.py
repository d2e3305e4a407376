"""The words that get a vector, and how often each comes in the training text."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.words.numbering import Numbering


@dataclass(frozen=True)
class Vocabulary:
    """Most frequent first, equal ones in alphabetical order.

    >>> vocabulary = Vocabulary(("the", "cat"), (12, 5))
    >>> vocabulary.index["cat"], "dog" in vocabulary, len(vocabulary)
    (1, False, 2)
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def counted(cls, numbering: Numbering, least_count: int, source: str) -> Self:
        """The words of a table that were seen often enough."""
        words, counts = numbering.words(), numbering.counts
        if not words:
            raise DataError(f"{source}: empty, no word in it. Give a file with text.")
        if len(words) == 1:
            raise DataError(f"{source}: one word only, {words[0].decode()!r}, and nothing around it. Give more text.")
        often: list[int] = np.flatnonzero(counts >= least_count).tolist()
        if len(often) < 2:
            top = int(counts.argmax())
            few = "only one word comes" if often else "no word comes"
            raise DataError(
                f"{source}: {few} {least_count} times or more; the most frequent, {words[top].decode()!r}, comes "
                f"{counts[top]} times. Use --set least_count=1, or give more text."
            )
        often.sort(key=lambda number: (-counts[number], words[number]))
        return cls(tuple(words[number].decode() for number in often), tuple(counts[often].tolist()))

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Self:
        return cls(tuple(known["words"]), tuple(known["counts"]))

    def to_json(self) -> dict[str, Any]:
        return {"words": list(self.words), "counts": list(self.counts)}

    @cached_property
    def index(self) -> dict[str, int]:
        """From a word to its number."""
        return {word: number for number, word in enumerate(self.words)}

    @property
    def frequencies(self) -> NDArray[np.int64]:
        return np.array(self.counts, dtype=np.int64)

    def sha256(self) -> str:
        """Of the words and their counts: vectors belong to one vocabulary."""
        lines = (f"{word} {count}\n" for word, count in zip(self.words, self.counts, strict=True))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def numbering(self) -> Numbering:
        """The table that turns text into these words' numbers."""
        return Numbering([word.encode() for word in self.words])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index
