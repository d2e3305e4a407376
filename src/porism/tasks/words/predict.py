"""What word vectors answer: a word's neighbours, what an analogy points to, and themselves as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from porism.errors import RecipeError
from porism.errors import nearest as nearest_spelling
from porism.tasks.words import word2vec
from porism.tasks.words.neighbours import Neighbour, analogy, nearest
from porism.training.task import Sample

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
