"""Vectors of words, called as gensim's KeyedVectors are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from porism.tasks.words.data import word2vec
from porism.tasks.words.predict import closest_words, id_of


class KeyedVectors:
    """A vector for each word.

    >>> vectors = KeyedVectors(["cat", "dog", "car"], np.eye(3, dtype=np.float32))
    >>> "dog" in vectors, len(vectors), vectors["dog"]
    (True, 3, array([0., 1., 0.], dtype=float32))
    >>> vectors.most_similar("dog", topn=1)
    [('cat', 0.0)]
    """

    def __init__(self, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.index_to_key = list(words)
        self.key_to_index = {word: number for number, word in enumerate(words)}
        self.vectors = vectors

    @property
    def vector_size(self) -> int:
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, word: object) -> bool:
        return word in self.key_to_index

    def __getitem__(self, words: str | Sequence[str]) -> NDArray[np.float32]:
        """The vector of a word (D,), or those of several (N, D)."""
        if isinstance(words, str):
            return self.get_vector(words)
        return np.stack([self.get_vector(word) for word in words])

    def get_vector(self, word: str, norm: bool = False) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.vectors[id_of(word, self.key_to_index, self.index_to_key)]
        return found / np.linalg.norm(found) if norm else found

    def similarity(self, one: str, other: str) -> float:
        """The cosine of the angle between two words."""
        a, b = (normalize(torch.from_numpy(self[word]).double(), dim=0) for word in (one, other))
        return float(a @ b)

    def most_similar(
        self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), topn: int = 10
    ) -> list[tuple[str, float]]:
        """The words nearest to the sum of some vectors of length 1, less that of others; none of them among it."""
        plus, minus = ([words] if isinstance(words, str) else list(words) for words in (positive, negative))
        vectors = torch.from_numpy(self.vectors)
        given = [id_of(word, self.key_to_index, self.index_to_key) for word in (*plus, *minus)]
        units = normalize(vectors[given].double())
        direction = units[: len(plus)].sum(0) - units[len(plus) :].sum(0)
        near = closest_words(vectors, self.index_to_key, direction[None], [given], topn)[0]
        return [(word, cosine) for word, cosine in near]

    def save_word2vec_format(self, fname: str | Path) -> None:
        """All vectors as word2vec's text (.txt) or binary (.bin)."""
        word2vec.save(Path(fname), self.index_to_key, self.vectors)

    def __repr__(self) -> str:
        return f"KeyedVectors<vector_size={self.vector_size}, {len(self)} keys>"
