"""What vectors answer on request."""

from pathlib import Path

import pytest
import torch

from porism.errors import DataError, RecipeError
from porism.tasks.words.data import word2vec
from porism.tasks.words.predict import answer

WORDS = ("king", "queen", "man", "woman", "cat")
VECTORS = torch.tensor([[2.0, 1, 0], [2, -1, 0], [0, 1, 0.1], [0, -1, 0.1], [0, 0.1, 3]])


def test_the_nearest_words_with_their_cosines() -> None:
    (sample,) = answer(VECTORS, WORDS, ["king"], {"topn": 2})
    assert sample.prompt == "king"
    assert sample.output == "-> queen 0.600, man 0.445"
    assert [one["word"] for one in sample.details["neighbours"]] == ["queen", "man"]


def test_three_words_are_an_analogy() -> None:
    (sample,) = answer(VECTORS, WORDS, ["man", "king", "woman"], {"analogy": True, "count": 1})
    assert sample.prompt == "man is to king as woman is to"
    assert sample.output.startswith("-> queen")
    with pytest.raises(RecipeError, match=r"an analogy takes three words, got 2: write --analogy man king woman"):
        answer(VECTORS, WORDS, ["man", "king"], {"analogy": True})


def test_a_word_in_capitals_is_found_in_lower_case() -> None:
    assert answer(VECTORS, WORDS, ["King"], {})[0].prompt == "king"


def test_vectors_go_into_a_file(tmp_path: Path) -> None:
    (sample,) = answer(VECTORS, WORDS, [], {"out": tmp_path / "vectors.bin"})
    assert sample.output == "-> 5 vectors of width 3"
    words, vectors = word2vec.load(tmp_path / "vectors.bin")
    assert tuple(words) == WORDS
    assert torch.equal(torch.as_tensor(vectors), VECTORS)


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="'quen' is not among the 5 words"):
        answer(VECTORS, WORDS, ["quen"], {})
    with pytest.raises(RecipeError, match=r"words have no option 'topm'. Did you mean topn\?"):
        answer(VECTORS, WORDS, ["king"], {"topm": 3})
    with pytest.raises(RecipeError, match="topn is 0, expected a whole number from 1 on"):
        answer(VECTORS, WORDS, ["king"], {"count": 0})
