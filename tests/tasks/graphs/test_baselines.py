"""The most frequent class and label propagation, on graphs small enough to see the answer."""

import dataclasses

import pytest
import torch

from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.graphs import baselines
from porism.tasks.graphs.baselines import baseline_accuracies, baseline_notes, majority, propagated_labels
from porism.tasks.graphs.data.labelled_graph import LabelledGraph

PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]


def graph_of(weights: list[float] | None = None) -> LabelledGraph:
    """A path 0 - 1 - 2 - 3 - 4, labelled at its ends; nodes 5 and 6 stand alone."""
    both = torch.tensor(PATH + [(b, a) for a, b in PATH]).T
    return LabelledGraph(
        "path",
        Graph(both, None if weights is None else torch.tensor(weights * 2), num_nodes=7),
        torch.eye(7),
        torch.tensor([1, 1, 1, 0, 0, 0, 0]),
        ("red", "blue"),
        {"train": torch.tensor([0, 4, 5]), "valid": torch.tensor([1, 6]), "test": torch.tensor([2, 3])},
    )


def test_labels_go_to_the_nearer_nodes_and_the_majority_to_those_that_none_reaches() -> None:
    data = graph_of(weights=[1.0, 1.0, 0.1, 1.0])
    assert majority(data) == 0
    found = propagated_labels(data)
    assert found is not None
    assert found.tolist() == [1, 1, 1, 0, 0, 0, 0]
    scores = baseline_accuracies(data)
    assert scores["majority class"] == {"valid": 0.5, "test": 0.5}
    assert scores["label propagation"] == {"valid": 1.0, "test": 1.0}


def test_features_tell_nodes_apart_that_no_edge_reaches() -> None:
    # Node 6 stands alone; its feature is that of class 0, on a scale of its own beside one that says nothing.
    features = torch.tensor([[1e-4, 5.0], [1e-4, 9.0], [2e-4, 1.0], [9e-4, 3.0], [9e-4, 8.0], [8e-4, 2.0], [9e-4, 6.0]])
    data = dataclasses.replace(graph_of(), features=features)
    found = baseline_accuracies(data)
    assert found["nearest mean of features"] == {"valid": 1.0, "test": 1.0}
    assert found["logistic regression on features"] == {"valid": 1.0, "test": 1.0}
    sparse = dataclasses.replace(data, features=SparseFeatures.from_dense(features))
    assert baseline_accuracies(sparse) == found
    assert baseline_notes(data) == []


def test_too_many_features_are_not_read_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_NUMBERS", 48)
    assert set(baseline_accuracies(graph_of())) == {"majority class", "label propagation"}
    assert baseline_notes(graph_of()) == ["Without baselines on features: nodes times features are more than 48."]


def test_the_scores_solve_the_equation() -> None:
    # F = (1 - a) (I - a Ahat)^-1 Y in the limit, which has the same largest entries after 50 rounds.
    data = graph_of()
    Ahat = data.graph.to_dense("sym").double()
    labels = torch.zeros(7, 2, dtype=torch.float64)
    labels[[0, 4, 5], [1, 0, 0]] = 1
    limit = torch.linalg.solve(torch.eye(7) - 0.9 * Ahat, labels)
    found = propagated_labels(data)
    assert found is not None
    assert found[:2].tolist() == limit[:2].argmax(1).tolist() == [1, 1]
    assert found[3:5].tolist() == limit[3:5].argmax(1).tolist() == [0, 0]


def test_weights_below_zero_leave_no_label_propagation() -> None:
    found = baseline_accuracies(graph_of(weights=[1.0, -1.0, 1.0, 1.0]))
    assert "label propagation" not in found
    assert "majority class" in found
