"""The words nearest to a word, and to where an analogy points, by the cosine of their vectors.

>>> nearest(vectors, words, ["paris"], count=3)                    # doctest: +SKIP
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

from porism.errors import DataError, RecipeError, ShapeError
from porism.errors import nearest as nearest_spelling
from porism.tasks.words.data import word2vec
from porism.training.task import Sample

BLOCK = 2**22
"""Numbers of vectors that are looked at together, in float64: 32 MiB, however many words there are."""

DECIMALS = 12
"""Cosines are rounded to these: a product rounds equal vectors differently by the place they stand at."""

SPELLINGS = 20_000
"""The most frequent words, among which one that is spelled alike is looked for: a million would take a minute."""


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle to it."""

    word: str
    cosine: float


def nearest(vectors: Tensor, words: Sequence[str], queries: Sequence[str], count: int = 10) -> list[list[Neighbour]]:
    """For each query the `count` nearest words, itself left out; of equally near ones the first in `words` come first.

    Shapes: vectors (V, D), a row for each of `words`.
    """
    numbers = numbered(vectors, words)
    asked = [[number_of(query, numbers, words)] for query in queries]
    return _around(vectors, words, vectors[[number for (number,) in asked]], asked, count)


def analogy(vectors: Tensor, words: Sequence[str], a: str, b: str, c: str, count: int = 10) -> list[Neighbour]:
    """a is to b as c is to what? The words nearest to b - a + c, each of length 1, the three left out."""
    numbers = numbered(vectors, words)
    given = [number_of(word, numbers, words) for word in (a, b, c)]
    from_a, from_b, from_c = normalize(vectors[given].double())
    return _around(vectors, words, (from_b - from_a + from_c)[None], [given], count)[0]


def numbered(vectors: Tensor, words: Sequence[str]) -> dict[str, int]:
    """The number of each word, for as many words as there are vectors."""
    if vectors.dim() != 2 or len(vectors) != len(words):
        raise ShapeError(
            f"neighbours: vectors are {tuple(vectors.shape)} for {len(words)} words, wanted ({len(words)}, D). "
            "Give a vector for each word."
        )
    return {word: number for number, word in enumerate(words)}


def number_of(word: str, numbers: Mapping[str, int], words: Sequence[str]) -> int:
    """Of a known word. Of another one the message names a known one that is spelled alike."""
    if word in numbers:
        return numbers[word]
    alike = get_close_matches(word, words[:SPELLINGS], n=1) or get_close_matches(word.lower(), words[:SPELLINGS], n=1)
    advice = (
        f"Did you mean {alike[0]}?" if alike else "None is spelled alike: it came too seldom in the text, or never."
    )
    raise DataError(f"{word!r} is not among the {len(words)} words with a vector. {advice}")


def _around(
    vectors: Tensor, words: Sequence[str], directions: Tensor, left_out: Sequence[Sequence[int]], count: int
) -> list[list[Neighbour]]:
    """The words nearest to each of the directions (Q, D), but for those of `left_out`."""
    Q = len(directions)
    pointers = normalize(directions.double())
    best = vectors.new_full((Q, 0), 0, dtype=torch.float64)
    places = vectors.new_full((Q, 0), 0, dtype=torch.int64)
    rows = max(1, BLOCK // vectors.shape[1])
    for start in range(0, len(words), rows):
        block = normalize(vectors[start : start + rows].double())
        cosines = (pointers @ block.mT).round(decimals=DECIMALS)  # Q D, D rows -> Q rows
        for query, numbers in enumerate(left_out):
            cosines[query, [number - start for number in numbers if start <= number < start + rows]] = -torch.inf
        # A stable order keeps equal ones as they were: those of blocks before, then the block's own.
        here = torch.arange(start, start + len(block), device=vectors.device).expand(Q, -1)
        best, order = torch.cat([best, cosines], 1).sort(dim=1, descending=True, stable=True)
        best, places = best[:, :count], torch.cat([places, here], 1).gather(1, order[:, :count])
    return [
        [
            Neighbour(words[place], cosine)
            for place, cosine in zip(places[query].tolist(), best[query].tolist(), strict=True)
            if cosine > -torch.inf
        ]
        for query in range(Q)
    ]


COUNT = 10
OPTIONS = ("analogy", "count", "out")


def answer(vectors: Tensor, words: Sequence[str], asked: Sequence[str], options: Mapping[str, Any]) -> list[Sample]:
    """The neighbours of each word that was asked for, or the answer to an analogy.

    options: `analogy`, whether three words are one; `count` of neighbours; `out`, a file for all vectors.

    Shapes: vectors (V, D), a row for each of `words`.
    """
    for name in options:
        if name not in OPTIONS:
            raise RecipeError(f"words have no option {name!r}. {nearest_spelling(name, OPTIONS)}")
    count = options.get("count", COUNT)
    if not isinstance(count, int) or count < 1:
        raise RecipeError(f"words: count is {count!r}, wanted a whole number from 1 on. Write --set count=NUMBER.")
    known = set(words)
    asked = [word if word in known or word.lower() not in known else word.lower() for word in asked]
    samples = _analogy(vectors, words, asked, count) if options.get("analogy") else []
    if not samples and asked:
        found = nearest(vectors, words, asked, count)
        samples = [_sample(word, near) for word, near in zip(asked, found, strict=True)]
    if "out" in options:
        path = Path(str(options["out"]))
        word2vec.save(path, words, vectors.numpy())
        samples.append(Sample(str(path), f"-> {len(words)} vectors of width {vectors.shape[1]}"))
    return samples


def _analogy(vectors: Tensor, words: Sequence[str], asked: Sequence[str], count: int) -> list[Sample]:
    if len(asked) != 3:
        raise RecipeError(
            f"an analogy takes three words, got {len(asked)}: write --analogy man king woman for "
            "'man is to king as woman is to what?'"
        )
    a, b, c = asked
    return [_sample(f"{a} is to {b} as {c} is to", analogy(vectors, words, a, b, c, count))]


def _sample(prompt: str, near: list[Neighbour]) -> Sample:
    shown = ", ".join(f"{word} {cosine:.3f}" for word, cosine in near)
    return Sample(prompt, f"-> {shown}", (), {"neighbours": [{"word": w, "cosine": c} for w, c in near]})
