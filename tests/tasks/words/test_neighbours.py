"""Neighbours are the largest cosines, in the order of the vocabulary where they are equal."""

import pytest
import torch

from porism.errors import DataError, ShapeError
from porism.tasks.words import predict as neighbours
from porism.tasks.words.predict import analogy, most_similar


def spelled(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


@pytest.mark.parametrize("size", [(1, 1), (2, 7), (63, 2), (200, 13)])
@pytest.mark.parametrize("block", [1, 50, 2**22])
def test_neighbours_are_the_largest_cosines(size: tuple[int, int], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", block)
    vectors, words = torch.randn(size, generator=torch.Generator().manual_seed(0)), spelled(size[0])
    cosines = torch.cosine_similarity(vectors.double()[:, None], vectors.double()[None], dim=2)
    cosines.fill_diagonal_(-2)
    for query, found in enumerate(most_similar(vectors, words, words[:20], 5)):
        best = cosines[query].sort(descending=True)
        count = min(5, len(words) - 1)
        assert [word for word, _ in found] == [words[index] for index in best.indices[:count].tolist()]
        assert [cosine for _, cosine in found] == pytest.approx(best.values[:count].tolist(), abs=1e-9)


@pytest.mark.parametrize("block", [7, 2**22])
def test_equally_near_words_come_in_the_order_of_the_vocabulary(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", block)
    draw = torch.Generator().manual_seed(0)
    # Seven directions again and again, in any length: nine words for each but the first, which has ten.
    vectors = torch.randn(7, 7, generator=draw).double().repeat(9, 1) * torch.randint(1, 99, (63, 1), generator=draw)
    vectors, words = torch.cat([vectors, vectors[:1]]), spelled(64)
    (found,) = most_similar(vectors, words, ["w14"], 12)
    assert [word for word, _ in found[:9]] == ["w0", "w7", "w21", "w28", "w35", "w42", "w49", "w56", "w63"]
    assert all(cosine == 1 for _, cosine in found[:9])
    # The next nearest direction, from its first word on.
    assert [int(word[1:]) % 7 for word, _ in found[9:]] == [int(found[9].word[1:])] * 3


def test_a_vector_of_zeros_is_at_right_angles_to_all() -> None:
    vectors = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert most_similar(vectors, ["zero", "a", "b"], ["zero", "a"], 2) == [
        [("a", 0.0), ("b", 0.0)],
        [("zero", 0.0), ("b", -1.0)],
    ]


def test_an_analogy_points_to_the_fourth_corner() -> None:
    words = ["man", "woman", "king", "queen", "apple"]
    vectors = torch.tensor([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [-1, 0.3, 0]])
    found = analogy(vectors, words, "man", "king", "woman", 5)
    assert [word for word, _ in found] == ["queen", "apple"]
    # b - a + c of length 1 each: the lengths of the vectors do not matter.
    longer = vectors * torch.tensor([[2.0], [4], [8], [0.5], [1]])
    assert analogy(longer, words, "man", "king", "woman", 5) == found


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("quen", "'quen' is not among the 2 words with a vector. Did you mean queen?"),
        ("QUEEN", "'QUEEN' is not among .* Did you mean queen?"),
        ("zzz", "'zzz' is not among .* None has a similar spelling: it is too rare in the text, or not in it."),
    ],
)
def test_an_unknown_word_is_named_with_one_that_is_spelled_alike(word: str, advice: str) -> None:
    vectors, words = torch.eye(2), ["queen", "king"]
    with pytest.raises(DataError, match=advice):
        most_similar(vectors, words, ["king", word])
    with pytest.raises(DataError, match=advice):
        analogy(vectors, words, "king", word, "queen")


def test_vectors_that_do_not_fit_the_words() -> None:
    with pytest.raises(
        ShapeError, match=r"neighbours: vectors are \(3, 2\) for 2 words, expected \(2, D\). Give a vector"
    ):
        most_similar(torch.ones(3, 2), ["a", "b"], ["a"])
