"""The words most similar to a word, and answers to analogies, by the cosine of their vectors.

>>> most_similar(vectors, words, ["paris"], count=3)               # doctest: +SKIP
[[Neighbour(word='lyon', cosine=0.81), Neighbour(word='marseille', cosine=0.79), Neighbour(word='france', cosine=0.77)]]
>>> analogy(vectors, words, "man", "king", "woman", count=1)       # doctest: +SKIP
[Neighbour(word='queen', cosine=0.71)]
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from porism.errors import Advice, DataError, RecipeError, ShapeError, nearest, shown
from porism.tasks.blocks.prediction_options import renamed
from porism.tasks.words.data import word2vec
from porism.training.task import Prediction

BLOCK = 2**22
"""Numbers of vectors that are compared at once, in float64: 32 MiB, however many words there are."""

DECIMALS = 12
"""Cosines are rounded to these: a product rounds equal vectors differently by their position."""

SPELLINGS = 20_000
"""The most frequent words, among which a similar spelling is searched: a million would take a minute."""


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle to it."""

    word: str
    cosine: float


def most_similar(
    vectors: Tensor, words: Sequence[str], queries: Sequence[str], count: int = 10
) -> list[list[Neighbour]]:
    """For each query the `count` most similar words without itself; of equal ones the first in `words` come first.

    Shapes: vectors (V, D), a row for each of `words`.
    """
    ids = word_ids(vectors, words)
    own = [[id_of(query, ids, words)] for query in queries]
    return closest_words(vectors, words, vectors[[number for (number,) in own]], own, count)


def analogy(vectors: Tensor, words: Sequence[str], a: str, b: str, c: str, count: int = 10) -> list[Neighbour]:
    """a is to b as c is to what? The words nearest to b - a + c, each of length 1, the three left out."""
    ids = word_ids(vectors, words)
    given = [id_of(word, ids, words) for word in (a, b, c)]
    from_a, from_b, from_c = normalize(vectors[given].double())
    return closest_words(vectors, words, (from_b - from_a + from_c)[None], [given], count)[0]


def word_ids(vectors: Tensor, words: Sequence[str]) -> dict[str, int]:
    """The id of each word, for as many words as there are vectors."""
    if vectors.dim() != 2 or len(vectors) != len(words):
        raise ShapeError(
            f"neighbours: vectors are {tuple(vectors.shape)} for {len(words)} words, expected ({len(words)}, D). "
            "Give a vector for each word."
        )
    return {word: number for number, word in enumerate(words)}


def id_of(word: str, ids: Mapping[str, int], words: Sequence[str]) -> int:
    """The id of a known word; for an unknown one the message suggests a similar spelling."""
    if word in ids:
        return ids[word]
    alike = get_close_matches(word, words[:SPELLINGS], n=1) or get_close_matches(word.lower(), words[:SPELLINGS], n=1)
    advice = (
        f"Did you mean {alike[0]}?"
        if alike
        else "None has a similar spelling: it is too rare in the text, or not in it."
    )
    raise DataError(f"{shown(word)} is not among the {len(words)} words with a vector. {advice}")


def closest_words(
    vectors: Tensor, words: Sequence[str], directions: Tensor, left_out: Sequence[Sequence[int]], count: int
) -> list[list[Neighbour]]:
    """The words closest to each of the directions (Q, D), without those of `left_out`."""
    Q = len(directions)
    units = normalize(directions.double())
    best = vectors.new_full((Q, 0), 0, dtype=torch.float64)
    indices = vectors.new_full((Q, 0), 0, dtype=torch.int64)
    rows = max(1, BLOCK // vectors.shape[1])
    for start in range(0, len(words), rows):
        block = normalize(vectors[start : start + rows].double())
        cosines = (units @ block.mT).round(decimals=DECIMALS)  # Q D, D rows -> Q rows
        for query, numbers in enumerate(left_out):
            cosines[query, [number - start for number in numbers if start <= number < start + rows]] = -torch.inf
        # A stable order keeps equal ones as they were: those of previous blocks, then the block's own.
        here = torch.arange(start, start + len(block), device=vectors.device).expand(Q, -1)
        best, order = torch.cat([best, cosines], 1).sort(dim=1, descending=True, stable=True)
        best, indices = best[:, :count], torch.cat([indices, here], 1).gather(1, order[:, :count])
    return [
        [
            Neighbour(words[index], cosine)
            for index, cosine in zip(indices[query].tolist(), best[query].tolist(), strict=True)
            if cosine > -torch.inf
        ]
        for query in range(Q)
    ]


COUNT = 10
OPTIONS = ("analogy", "topn", "export")
OLD_OPTIONS = {"count": "topn", "out": "export"}
"""Options under the names of 0.1."""


def answer(
    vectors: Tensor, words: Sequence[str], queries: Sequence[str], options: Mapping[str, Any]
) -> list[Prediction]:
    """The neighbours of each query, or the answer to an analogy.

    options: `analogy`, whether the queries are the words of one; `topn`, how many neighbours; `export`, a file for all
    vectors.

    Shapes: vectors (V, D), a row for each of `words`.
    """
    options = renamed(options, OLD_OPTIONS)
    for name in options:
        if name not in OPTIONS:
            raise RecipeError(f"words have no option {shown(name)}. {nearest(name, OPTIONS)}")
    count = options.get("topn", COUNT)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise RecipeError(f"words: topn is {count!r}, expected a whole number from 1 on.")
    known = set(words)
    queries = [word if word in known or word.lower() not in known else word.lower() for word in queries]
    samples = _analogy(vectors, words, queries, count) if options.get("analogy") else []
    if not samples and queries:
        samples = _neighbours(vectors, words, queries, count)
    if "export" in options:
        path = Path(str(options["export"]))
        word2vec.save(path, words, vectors.numpy())
        samples.append(Prediction(str(path), f"-> {len(words)} vectors of width {vectors.shape[1]}"))
    return samples


def _neighbours(vectors: Tensor, words: Sequence[str], queries: Sequence[str], count: int) -> list[Prediction]:
    """An answer to each query. Of several, an unknown one has a note in its place; where none is known, refused."""
    ids = word_ids(vectors, words)
    unknown: dict[str, str] = {}
    for query in dict.fromkeys(queries):
        try:
            id_of(query, ids, words)
        except DataError as error:
            if all(word not in ids for word in queries):
                raise
            unknown[query] = str(error)
    known = [query for query in queries if query not in unknown]
    found = dict(zip(known, most_similar(vectors, words, known, count), strict=True))
    return [
        Prediction(query, "", (unknown[query],)) if query in unknown else _sample(query, found[query])
        for query in queries
    ]


def _analogy(vectors: Tensor, words: Sequence[str], queries: Sequence[str], count: int) -> list[Prediction]:
    if len(queries) != 3:
        raise RecipeError(
            f"an analogy takes three words, got {len(queries)}:",
            Advice(
                "write --analogy man king woman for 'man is to king as woman is to what?'",
                'write predict(["man", "king", "woman"], analogy=True) for "man is to king as woman is to what?"',
            ),
        )
    a, b, c = queries
    return [_sample(f"{a} is to {b} as {c} is to", analogy(vectors, words, a, b, c, count))]


def _sample(prompt: str, near: list[Neighbour]) -> Prediction:
    shown = ", ".join(f"{word} {cosine:.3f}" for word, cosine in near)
    return Prediction(prompt, f"-> {shown}", (), {"neighbours": [{"word": w, "cosine": c} for w, c in near]})
