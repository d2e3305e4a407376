"""The map keeps similar words together, is the same every time, and names its clusters by typical words."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from porism.errors import MissingExtra
from porism.tasks.words.exhibits import word_map as module
from porism.tasks.words.exhibits.word_map import clusters, embed, legible, typical, word_map


def around_directions(count: int, size: int, width: int = 20) -> Tensor:
    """Rows around `count` directions, far from each other: row n belongs to direction n % count."""
    draw = torch.Generator().manual_seed(0)
    middles: Tensor = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64)).Q[:count]
    return middles.repeat(size, 1) + 0.05 * torch.randn(count * size, width, generator=draw, dtype=torch.float64)


def test_rows_that_are_alike_lie_together() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn draws the map")
    plane = torch.from_numpy(embed(around_directions(4, 16).numpy()))
    distances = torch.cdist(plane, plane).fill_diagonal_(torch.inf)
    # Each point's fifteen nearest are the others of its own cluster.
    nearest = distances.topk(15, largest=False).indices
    assert (nearest % 4 == torch.arange(64)[:, None] % 4).all()


def test_the_map_is_the_same_every_time() -> None:
    vectors, words = around_directions(3, 7), [f"w{number}" for number in range(21)]
    first = word_map(vectors, words)
    torch.rand(1)
    assert word_map(vectors, words) == first


def test_clusters_are_points_that_lie_together_the_largest_first() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn draws the map")
    plane = np.array([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 0], [-9, 9]])
    assert [members.tolist() for members in clusters(plane, 3)] == [[0, 2, 4], [1, 3], [5]]


def test_the_map_is_computed_by_one_thread_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn draws the map")
    from sklearn import cluster, decomposition, manifold
    from threadpoolctl import threadpool_info, threadpool_limits

    threads = []

    def watch(kind: type, name: str) -> None:
        plain = getattr(kind, name)

        def watched(self: Any, x: Any) -> Any:
            threads.append((type(self).__name__, {pool["num_threads"] for pool in threadpool_info()}))
            return plain(self, x)

        monkeypatch.setattr(kind, name, watched)

    watch(decomposition.PCA, "fit_transform")
    watch(manifold.TSNE, "fit_transform")
    watch(cluster.KMeans, "fit")
    with threadpool_limits(2):
        clusters(embed(around_directions(3, 7).numpy()), 3)
    assert threads == [("PCA", {1}), ("TSNE", {1}), ("KMeans", {1})]


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


@pytest.mark.parametrize("shape", [(3, 1), (7, 1), (63, 2)])
def test_few_dimensions_are_enough(shape: tuple[int, int]) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn draws the map")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plane = embed(x.numpy())
    assert plane.shape == (shape[0], 2)
    assert np.isfinite(plane).all()


def test_without_scikit_learn_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtra, match=r'needs scikit-learn, which is not installed: pip install "porism\[words\]"'
    ):
        word_map(torch.eye(3), ["a", "b", "c"])
