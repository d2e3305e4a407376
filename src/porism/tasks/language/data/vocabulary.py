"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import msgspec
import numpy as np
import torch
from torch import Tensor

from porism.errors import DataError, RecipeError, shown
from porism.tasks.blocks.texts import EOS

__all__ = ["EOS", "UNK", "Vocabulary"]

UNK = "<unk>"
"""Any word that is not in the vocabulary."""


@dataclass(frozen=True)
class Vocabulary:
    """The words a model knows, most frequent first, `<eos>` and `<unk>` among them.

    >>> vocabulary = Vocabulary.from_words("the cat saw the dog <eos>".split())
    >>> vocabulary.words
    ('the', '<eos>', 'cat', 'dog', 'saw', '<unk>')
    >>> vocabulary.encode(["the", "dog", "slept"])
    tensor([0, 3, 5])
    >>> vocabulary.decode([0, 3, 5])
    ['the', 'dog', '<unk>']
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.index) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise DataError(f"vocabulary: the word {shown(twice)} is in it twice. Every word must have one number.")
        for special in (EOS, UNK):
            if special not in self.index:
                raise DataError(f"vocabulary: {special} is not among its {len(self.words)} words. Add it.")

    @classmethod
    def from_words(
        cls,
        words: Iterable[str] | Mapping[str, int],
        *,
        min_count: int = 1,
        max_words: int | None = None,
        always: Iterable[str] = (),
    ) -> Self:
        """Words seen at least `min_count` times, of those the `max_words` most frequent; ties in alphabetical order.

        `words` are those of a text, or how often each is seen there.
        Words of `always` are in it however often they are seen.
        What is left out counts as `<unk>`, so `<unk>` takes its place in the order by how often a model will meet it.
        """
        if min_count < 1:
            raise RecipeError(f"vocabulary: min_count is {min_count}, expected at least 1. 1 keeps every word.")
        if max_words is not None and max_words < 2:
            raise RecipeError(f"vocabulary: max_words is {max_words}, expected at least 2, for {EOS} and {UNK}.")
        counts = Counter(words)
        specials = {special: counts.pop(special, 0) for special in (EOS, UNK)}
        ranked = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
        kept = {word: counts[word] for word in ranked[: None if max_words is None else max_words - len(specials)]}
        kept |= {word: counts[word] for word in always}
        specials[UNK] += counts.total() - sum(kept.values())
        kept |= specials
        return cls(tuple(sorted(kept, key=lambda word: (-kept[word], word))))

    @classmethod
    def from_json(cls, words: Sequence[str]) -> Self:
        """The vocabulary `to_json` wrote."""
        return cls(msgspec.convert(words, tuple[str, ...]))

    def to_json(self) -> list[str]:
        """The words in the order of their numbers."""
        return list(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """From a word to its number."""
        return {word: number for number, word in enumerate(self.words)}

    @property
    def eos(self) -> int:
        """The number of `<eos>`."""
        return self.index[EOS]

    @property
    def unk(self) -> int:
        """The number of `<unk>`."""
        return self.index[UNK]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def encode(self, words: Iterable[str]) -> Tensor:
        """Numbers (T,) of words; a word that is not in the vocabulary becomes `<unk>`."""
        index, unk = self.index, self.unk
        return torch.from_numpy(np.fromiter((index.get(word, unk) for word in words), dtype=np.int64))

    def decode(self, numbers: Iterable[int] | Tensor) -> list[str]:
        """Words of numbers."""
        numbers = numbers.tolist() if isinstance(numbers, Tensor) else numbers
        return [self.words[number] for number in numbers]
