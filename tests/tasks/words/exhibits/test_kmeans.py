"""Clusters are points that lie together, the largest first, and no worse than scikit-learn's."""

import pytest
import torch
from torch import Tensor

from porism.tasks.words.exhibits.kmeans import clusters


def within(points: Tensor, members: list[Tensor]) -> float:
    """The sum of squared distances from the means."""
    return sum(float((points[rows] - points[rows].mean(0)).square().sum()) for rows in members)


def test_clusters_are_points_that_lie_together_the_largest_first() -> None:
    plane = torch.tensor([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 0], [-9, 9]])
    assert [members.tolist() for members in clusters(plane, 3)] == [[0, 2, 4], [1, 3], [5]]


@pytest.mark.parametrize("count", [1, 5, 12])
def test_they_are_as_tight_as_scikit_learn_s(count: int) -> None:
    cluster = pytest.importorskip("sklearn.cluster", reason="scikit-learn is the peer")
    points = torch.randn(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    peer = cluster.KMeans(count, n_init=10, random_state=0).fit(points.numpy()).inertia_
    found = clusters(points, count)
    assert torch.equal(torch.cat(found).sort().values, torch.arange(300))
    assert within(points, found) < 1.02 * peer


def test_the_same_points_are_in_the_same_clusters() -> None:
    points = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    first = [rows.tolist() for rows in clusters(points, 7)]
    torch.rand(1)
    assert [rows.tolist() for rows in clusters(points, 7)] == first


def test_there_are_no_more_clusters_than_different_points() -> None:
    points = torch.tensor([[1.0, 1], [2, 2]]).repeat(5, 1)
    assert [rows.tolist() for rows in clusters(points, 12)] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert [rows.tolist() for rows in clusters(torch.ones(4, 2), 12)] == [[0, 1, 2, 3]]
