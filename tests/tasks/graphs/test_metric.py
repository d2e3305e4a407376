"""What is shown of a trained net: counts that add up, and the over-smoothing that theory foretells."""

import pytest
import torch

from porism.runs.exhibits import Lines, Matrix, Points, Table
from porism.tasks.blocks.classification import accuracy_and_cross_entropy
from porism.tasks.graphs.data import load_graph
from porism.tasks.graphs.exhibits.hidden_layer import principal_plane
from porism.tasks.graphs.exhibits.over_smoothing import similarity, smoothing
from porism.tasks.graphs.metric import by_class, confusion_matrix
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs


def test_accuracy_and_cross_entropy() -> None:
    logits = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]).log()
    found = accuracy_and_cross_entropy(logits, torch.tensor([0, 1, 1]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["cross_entropy"] == pytest.approx(-torch.tensor([0.8, 0.7, 0.4]).log().mean().item())


def test_a_confusion_has_what_is_in_rows_and_what_was_said_in_columns() -> None:
    matrix = confusion_matrix(torch.tensor([0, 0, 1, 0]), torch.tensor([0, 1, 1, 1]), ("a", "b", "c"))
    assert matrix.counts == [[1, 0, 0], [2, 1, 0], [0, 0, 0]]
    assert by_class(matrix).rows == [["a", 1, 1, "100.0%"], ["b", 3, 1, "33.3%"], ["c", 0, 0, ""]]


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (2, 5), (63, 7)])
def test_the_plane_keeps_the_two_largest_variances(shape: tuple[int, int]) -> None:
    h = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plane = principal_plane(h)
    assert plane.shape == (shape[0], 2)
    largest = torch.linalg.svdvals(h - h.mean(0)).square()[:2]
    assert torch.allclose(plane.square().sum(0)[: len(largest)], largest)


def test_similarity_is_the_mean_over_pairs() -> None:
    h = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs = [torch.cosine_similarity(h[i], h[j], 0) for i in range(7) for j in range(7) if i != j]
    assert similarity(h) == pytest.approx(float(torch.stack(pairs).mean()))
    assert similarity(torch.cat([h, torch.zeros(2, 3)])) == pytest.approx(similarity(h))


def test_in_a_connected_graph_everybody_becomes_alike() -> None:
    alike, separable = smoothing(load_graph("karate"))
    assert set(alike.lines) == set(separable.lines) == {"none", "rw", "sym", "softmax"}
    for points in alike.lines.values():
        assert [depth for depth, _ in points] == [2, 4, 8, 16, 32, 64]
        assert points[-1][1] > 0.99 > points[0][1]
    # Without weights on the edges the softmax gives every neighbour the same.
    softmax, row = (torch.tensor(alike.lines[name]) for name in ("softmax", "rw"))
    assert torch.allclose(softmax, row, atol=1e-5)


def test_a_trained_net_shows_what_there_is_to_see() -> None:
    task = Graphs.load(RECIPES["gcn"], None)
    net = task.build().eval()
    shown = task.exhibits(net)
    assert [type(one) for one in shown] == [Table, Matrix, Points, Lines, Lines]
    right = task.outcomes(net, "test")
    assert sum(right) / len(right) == task.evaluate(net, "test")["accuracy"]
    matrix = shown[1]
    assert isinstance(matrix, Matrix)
    assert sum(matrix.counts[place][place] for place in range(2)) == sum(right)
    assert sum(map(sum, matrix.counts)) == len(right) == 24
