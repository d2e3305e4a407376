"""The map keeps company together, comes out the same every time, and names its regions by the words in them."""

import pytest
import torch
from torch import Tensor

from porism.tasks.words.exhibits.word_map import (
    chances,
    gradient,
    legible,
    places,
    regions,
    squared_distances,
    typical,
    word_map,
)


def clusters(count: int, size: int, width: int = 20) -> Tensor:
    """Rows around `count` directions, far from each other: row n belongs to direction n % count."""
    draw = torch.Generator().manual_seed(0)
    middles: Tensor = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64)).Q[:count]
    return middles.repeat(size, 1) + 0.05 * torch.randn(count * size, width, generator=draw, dtype=torch.float64)


def test_rows_that_are_alike_lie_together() -> None:
    plane = places(clusters(4, 16))
    distances = squared_distances(plane).fill_diagonal_(torch.inf)
    # Each point's fifteen nearest are the others of its own cluster.
    nearest = distances.topk(15, largest=False).indices
    assert (nearest % 4 == torch.arange(64)[:, None] % 4).all()


def test_the_map_is_the_same_every_time() -> None:
    vectors, words = clusters(3, 7), [f"w{number}" for number in range(21)]
    first = word_map(vectors, words)
    torch.rand(1)
    assert word_map(vectors, words) == first


@pytest.mark.parametrize("size", [(4, 1), (7, 2), (63, 5)])
def test_every_word_reaches_as_many_as_perplexity_says(size: tuple[int, int]) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = torch.stack([(x - row).square().sum(1) for row in x])
    assert torch.allclose(squared_distances(x), squares)
    perplexity = len(x) / 3
    p = chances(squares, perplexity)
    assert p.diagonal().eq(0).all()
    assert torch.allclose(p.sum(1), torch.ones(len(x), dtype=p.dtype))
    assert torch.allclose(torch.special.entr(p).sum(1).exp(), torch.full((len(x),), perplexity, dtype=p.dtype))


def test_perplexity_is_that_of_equals_where_all_are_equally_far() -> None:
    """Six equal neighbours are a perplexity of six, and no width of reach makes fewer of them."""
    p = chances(1 - torch.eye(7, dtype=torch.float64), 2.0)
    assert torch.allclose(p, (1 - torch.eye(7, dtype=torch.float64)) / 6)


@pytest.mark.parametrize("count", [2, 7, 63])
def test_the_gradient_is_that_of_the_divergence(count: int) -> None:
    draw = torch.Generator().manual_seed(0)
    p = torch.rand(count, count, generator=draw, dtype=torch.float64).fill_diagonal_(0)
    p = (p + p.mT) / (2 * p.sum())
    y = torch.randn(count, 2, generator=draw, dtype=torch.float64, requires_grad=True)
    others = ~torch.eye(count, dtype=torch.bool)
    w = (1 / (1 + (y[:, None] - y[None]).square().sum(2)))[others]
    (p[others] * torch.log(p[others] / (w / w.sum()))).sum().backward()
    torch.testing.assert_close(gradient(p, y.detach()), y.grad, rtol=1e-10, atol=1e-12)


def test_regions_are_what_lies_together_the_largest_first() -> None:
    plane = torch.tensor([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 0], [-9, 9]])
    assert [region.tolist() for region in regions(plane, 3)] == [[0, 2, 4], [1, 3], [5]]


def test_a_region_is_named_by_the_words_in_its_middle() -> None:
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
    places = [("south", 0.0, 0.0), ("north", 0.1, 0.05), ("above", 0.1, 0.07), ("aside", 0.13, 0.0), ("a", -0.08, 0.0)]
    assert list(legible(places)) == ["south", "above", "aside", "a"]
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
