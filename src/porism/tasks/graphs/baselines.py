"""Simple classifiers of nodes, to set a graph net beside: most frequent class, label propagation, and without edges the
nearest mean and logistic regression.

Label propagation (Zhou et al. 2004), with the labels of the training nodes in Y (N, V), one-hot, and 0 elsewhere:

    F <- a Ahat F + (1 - a) Y,    Ahat = D^-1/2 (A + I) D^-1/2,    a = 0.9, 50 times from F = Y

A node is of the class with the largest entry of its row; a node that no label reaches is of the most frequent class.
No feature is read, and nothing is chosen on valid.

The nearest mean is that of a class's training nodes, in features of mean 0 and deviation 1 over all nodes; logistic
regression reads the same, its regularization chosen on valid.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from porism.layers.gcn import SparseFeatures
from porism.layers.gcn.functional import propagate
from porism.tasks.blocks.logistic import fit_logistic, sklearn_missing
from porism.tasks.graphs.data.labelled_graph import LabelledGraph
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import MappedGraph

ALPHA = 0.9
ITERATIONS = 50
MOST_NUMBERS = 20_000_000
"""Nodes times features that are read; a larger graph has no baselines without edges."""


def baseline_accuracies(data: LabelledGraph) -> dict[str, dict[str, float]]:
    """The accuracy of each baseline on valid and test: name, then split.

    >>> baseline_accuracies(load_graph("karate"))["label propagation"]
    {'valid': 0.875, 'test': 1.0}
    """
    nodes = torch.arange(data.graph.num_nodes)
    models = {"majority class": torch.full_like(nodes, majority(data)), "label propagation": propagated_labels(data)}
    if (features := standardised(data)) is not None:
        models["nearest mean of features"] = nearest_mean(data, features)
        if not sklearn_missing("") and len(data.labels[data.splits["train"]].unique()) > 1:
            models["logistic regression on features"] = regression_labels(data, features)
    return {
        name: {split: _accuracy(predicted, data, split) for split in ("valid", "test")}
        for name, predicted in models.items()
        if predicted is not None
    }


def majority(data: LabelledGraph) -> int:
    """The most frequent class of the training nodes; of equal ones the first."""
    return int(data.labels[data.splits["train"]].bincount(minlength=len(data.classes)).argmax())


def propagated_labels(data: LabelledGraph) -> Tensor | None:
    """The class of every node by label propagation (N); None where a weight below 0 leaves no normalization, and where
    edges stay in their file, which it would read so many times."""
    if isinstance(data.graph, MappedGraph):
        return None
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


def baseline_notes(data: LabelledGraph) -> list[str]:
    """What to know of them: which are left out, and why."""
    notes = []
    if isinstance(data.graph, MappedGraph):
        notes = [f"Without label propagation: edges stay in their file, and it reads all of them {ITERATIONS} times."]
    if isinstance(data.features, MappedFeatures):
        return [*notes, "Without baselines on features: these stay in their file, and the baselines take all at once."]
    if _is_large(data):
        return [*notes, f"Without baselines on features: nodes times features are more than {MOST_NUMBERS}."]
    return [*notes, *sklearn_missing("logistic regression on features")]


def standardised(data: LabelledGraph) -> Tensor | None:
    """Features of mean 0 and deviation 1 (N, D); None where they are too many."""
    if isinstance(data.features, MappedFeatures) or _is_large(data):
        return None
    features = data.features.to_dense() if isinstance(data.features, SparseFeatures) else data.features
    features = features.double()
    deviation = features.std(0, correction=0)
    return (features - features.mean(0)) / deviation.where(deviation > 0, 1)


def nearest_mean(data: LabelledGraph, features: Tensor) -> Tensor:
    """The class of every node by the nearest mean of a class's training nodes (N)."""
    train = data.splits["train"]
    members = one_hot(data.labels[train], len(data.classes)).to(features)  # n V
    counts = members.sum(0)
    means = members.mT @ features[train] / counts.clamp(min=1)[:, None]
    return torch.cdist(features, means).masked_fill(counts == 0, float("inf")).argmin(1)


def regression_labels(data: LabelledGraph, features: Tensor) -> Tensor:
    """The class of every node by logistic regression on its features (N)."""
    inputs = {split: np.asarray(features[data.splits[split]].numpy()) for split in ("train", "valid")}
    labels = {split: np.asarray(data.labels[data.splits[split]].numpy()) for split in inputs}
    model = fit_logistic(inputs["train"], labels["train"], inputs["valid"], labels["valid"], len(data.classes))
    return model.log_probs(np.asarray(features.numpy())).argmax(1)


def _is_large(data: LabelledGraph) -> bool:
    return data.graph.num_nodes * data.features.shape[1] > MOST_NUMBERS


def _accuracy(predicted: Tensor, data: LabelledGraph, split: str) -> float:
    members = data.splits[split]
    return float((predicted[members] == data.labels[members]).double().mean())
