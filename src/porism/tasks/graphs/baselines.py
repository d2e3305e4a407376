"""Classifiers without weights, to set a graph net beside: the most frequent class, and label propagation.

Label propagation (Zhou et al. 2004), with the labels of the training nodes in Y (N, V), one-hot, and 0 elsewhere:

    F <- a Ahat F + (1 - a) Y,    Ahat = D^-1/2 (A + I) D^-1/2,    a = 0.9, 50 times from F = Y

A node is of the class with the largest entry of its row; a node that no label reaches is of the most frequent class.
No feature is read, and nothing is chosen on valid.
"""

import torch
from torch import Tensor

from porism.layers.gcn.functional import propagate
from porism.tasks.graphs.data.labelled_graph import LabelledGraph

ALPHA = 0.9
ITERATIONS = 50


def baseline_accuracies(data: LabelledGraph) -> dict[str, dict[str, float]]:
    """The accuracy of each baseline on valid and test: name, then split.

    >>> baseline_accuracies(load_graph("karate"))["label propagation"]
    {'valid': 0.875, 'test': 1.0}
    """
    nodes = torch.arange(data.graph.num_nodes)
    models = {"majority class": torch.full_like(nodes, majority(data)), "label propagation": propagated_labels(data)}
    return {
        name: {split: _accuracy(predicted, data, split) for split in ("valid", "test")}
        for name, predicted in models.items()
        if predicted is not None
    }


def majority(data: LabelledGraph) -> int:
    """The most frequent class of the training nodes; of equal ones the first."""
    return int(data.labels[data.splits["train"]].bincount(minlength=len(data.classes)).argmax())


def propagated_labels(data: LabelledGraph) -> Tensor | None:
    """The class of every node by label propagation (N); None where a weight below 0 leaves no normalization."""
    weights = data.graph.neighbors(add_self_loops=False).weights
    if weights is not None and bool((weights < 0).any()):
        return None
    train = data.splits["train"]
    labels = torch.zeros(data.graph.num_nodes, len(data.classes), dtype=torch.float64)
    labels[train, data.labels[train]] = 1
    propagation = data.graph.propagation("sym", dtype=torch.float64)
    scores = labels
    for _ in range(ITERATIONS):
        scores = torch.lerp(labels, propagate(scores, propagation), ALPHA)
    return torch.where((scores > 0).any(1), scores.argmax(1), majority(data))


def _accuracy(predicted: Tensor, data: LabelledGraph, split: str) -> float:
    members = data.splits[split]
    return float((predicted[members] == data.labels[members]).double().mean())
