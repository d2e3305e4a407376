"""The map keeps similar words together, is the same every time, and names its clusters by typical words."""

import pytest
import torch
from torch import Tensor

from porism.tasks.words.exhibits import word_map as module
from porism.tasks.words.exhibits.tsne import embed
from porism.tasks.words.exhibits.word_map import PERPLEXITY, legible, typical, word_map


def around_directions(count: int, size: int, width: int = 20) -> Tensor:
    """Rows around `count` directions, far from each other: row n belongs to direction n % count."""
    draw = torch.Generator().manual_seed(0)
    middles: Tensor = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64)).Q[:count]
    return middles.repeat(size, 1) + 0.05 * torch.randn(count * size, width, generator=draw, dtype=torch.float64)


def test_rows_that_are_alike_lie_together() -> None:
    plane = embed(around_directions(4, 16), PERPLEXITY)
    distances = torch.cdist(plane, plane).fill_diagonal_(torch.inf)
    # Each point's fifteen nearest are the others of its own cluster.
    nearest = distances.topk(15, largest=False).indices
    assert (nearest % 4 == torch.arange(64)[:, None] % 4).all()


def test_the_map_is_the_same_every_time() -> None:
    vectors, words = around_directions(3, 7), [f"w{number}" for number in range(21)]
    first = word_map(vectors, words)
    torch.rand(1)
    assert word_map(vectors, words) == first


def test_the_map_is_computed_by_one_thread_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def watch(name: str) -> None:
        plain = getattr(module, name)

        def watched(*args: object) -> object:
            threads.append((name, torch.get_num_threads()))
            return plain(*args)

        monkeypatch.setattr(module, name, watched)

    watch("embed")
    watch("clusters")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        word_map(around_directions(3, 7), [f"w{number}" for number in range(21)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [("embed", 1), ("clusters", 1)]


def test_the_typical_words_of_a_cluster_are_in_its_middle() -> None:
    units = torch.nn.functional.normalize(torch.tensor([[1.0, 1], [1, 0], [0.9, 0.5], [0, 1], [-1, 0]]))
    assert typical(torch.tensor([0, 1, 2, 3]), units)[0] == 0
    assert typical(torch.tensor([1, 2, 3]), units)[0] == 2


@pytest.mark.parametrize("count", [1, 2, 3, 7, 63])
def test_a_map_of_few_words_has_each_of_them(count: int) -> None:
    vectors = torch.randn(count, 5, generator=torch.Generator().manual_seed(0))
    found = word_map(vectors, [f"w{number}" for number in range(count)])
    assert sum(map(len, found.groups.values())) == count
    assert len(found.groups) <= 12
    assert all(abs(x) <= 1 and abs(y) <= 1 for points in found.groups.values() for x, y in points)


def test_labels_do_not_cover_each_other() -> None:
    positions = [
        ("south", 0.0, 0.0),
        ("north", 0.1, 0.05),
        ("above", 0.1, 0.07),
        ("aside", 0.13, 0.0),
        ("a", -0.08, 0.0),
    ]
    assert list(legible(positions)) == ["south", "above", "aside", "a"]
    found = word_map(torch.randn(63, 5, generator=torch.Generator().manual_seed(0)), [f"w{n}" for n in range(63)])
    points = [point for group in found.groups.values() for point in group]
    assert 12 <= len(found.labels) <= 63
    assert set(found.labels.values()) <= set(points)


def test_the_most_frequent_words_are_shown_and_no_punctuation() -> None:
    words = ["the", ",", "of", "...", "1990", "’", "rare"]
    found = word_map(torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), words, most=3)
    assert sorted(name for group in found.groups for name in group.split(", ")) == ["1990", "of", "the"]
    assert found.about.startswith("The 3 most frequent words")


def test_a_text_of_punctuation_alone_has_a_map_too() -> None:
    found = word_map(torch.eye(2), [",", "."])
    assert sorted(found.groups) == [",", "."]


def test_equal_vectors_do_not_break_it() -> None:
    found = word_map(torch.ones(7, 3), [f"w{number}" for number in range(7)])
    assert sum(map(len, found.groups.values())) == 7
