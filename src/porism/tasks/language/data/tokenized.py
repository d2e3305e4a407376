"""Texts as tokens, each text cut once: counts and encodings are made from the distinct tokens.

>>> from porism.tasks.language.data.tokenizer import get_tokenizer
>>> found = Tokenized.of(get_tokenizer("whitespace"), {"train": "the cat saw the dog", "valid": "the owl"})
>>> found.tokens
('the', 'cat', 'saw', 'dog', 'owl')
>>> found.counts("train")["the"]
2
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.tasks.language.data.tokenizer import Tokenizer
from porism.tasks.language.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Tokenized:
    """The tokens of all splits in the order in which they first occur, and each split as their numbers."""

    tokens: tuple[str, ...]
    splits: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, tokenizer: Tokenizer, texts: Mapping[str, str]) -> Self:
        numbers: defaultdict[str, int] = defaultdict()
        # A token that is new gets the next number.
        numbers.default_factory = numbers.__len__
        splits = {
            split: np.fromiter(map(numbers.__getitem__, tokenizer.stream(text)), np.int64)
            for split, text in texts.items()
        }
        return cls(tuple(numbers), splits)

    def counts(self, split: str) -> Counter[str]:
        """How often each token occurs in a split; tokens that do not are left out."""
        counts: Any = np.bincount(self.splits[split], minlength=len(self.tokens)).tolist()
        return Counter({token: count for token, count in zip(self.tokens, counts, strict=True) if count})

    def encoded(self, vocabulary: Vocabulary) -> dict[str, Tensor]:
        """Every split as the numbers (T,) that a vocabulary has for its tokens."""
        numbers = vocabulary.encode(self.tokens)
        return {split: numbers[torch.from_numpy(stream)] for split, stream in self.splits.items()}
