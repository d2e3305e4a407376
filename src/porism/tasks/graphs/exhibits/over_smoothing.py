"""Over-smoothing: how the features of nodes become alike when they are propagated many times.

Without weights and training: this is what a normalisation does to any net of that depth.
"""

import torch
from torch import Tensor
from torch.nn import functional

from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.normalize import NORMALIZATIONS
from porism.layers.gcn.functional import project, propagate
from porism.runs.exhibits import Lines
from porism.tasks.graphs.data.labelled_graph import LabelledGraph
from porism.tasks.graphs.data.mapped import MappedFeatures

DEPTHS = (0, 1, 2, 4, 8, 16, 32, 64)
WIDTH = 64
"""Features are first projected to this width at random, which nearly keeps angles."""


def smoothing(data: LabelledGraph) -> list[Lines]:
    """The similarity of nodes and the accuracy of the nearest class mean by depth, under each normalisation.

    Computed on the CPU, where the data is.
    """
    alike: dict[str, list[tuple[float, float]]] = {}
    accuracy: dict[str, list[tuple[float, float]]] = {}
    # Of what stays in its file the report leaves this out.
    assert not isinstance(data.features, MappedFeatures)
    assert isinstance(data.graph, Graph)
    start = _narrowed(data.features)
    for normalization in NORMALIZATIONS:
        h, depth = start, 0
        propagation = data.graph.propagation(normalization)
        for target in DEPTHS:
            while depth < target:
                # Without normalisation numbers grow with every step, and only directions count.
                h, depth = propagate(h, propagation), depth + 1
                h = h / h.abs().max().clamp_min(1e-30)
            if target > 1:
                alike.setdefault(normalization, []).append((target, similarity(h)))
                accuracy.setdefault(normalization, []).append((target, _nearest_mean_accuracy(h, data)))
    return [
        Lines(
            title="Over-smoothing: how alike nodes become",
            about="Mean cosine between the features of two nodes after so many propagations, without weights: at 1 all "
            "nodes have the same direction, and later layers can separate them by length alone. Without weights "
            "on the edges rw and softmax are the same.",
            x="propagations", y="mean cosine", lines=alike, log_x=True,
        ),
        Lines(
            title="Over-smoothing: accuracy that is left",
            about="Accuracy on test if a node takes the class whose mean over the training nodes is nearest by angle.",
            x="propagations", y="accuracy on test", lines=accuracy, log_x=True,
        ),
    ]  # fmt: skip


def similarity(h: Tensor) -> float:
    """The mean cosine between the rows of h over all pairs of different nodes; rows of zeros are left out.

    >>> similarity(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]))
    0.3333333333333333
    """
    rows = h.double()
    units = functional.normalize(rows[rows.abs().amax(1) > 0], eps=0.0)
    pairs = len(units) * (len(units) - 1)
    return float((units.sum(0).square().sum() - len(units)) / pairs) if pairs else 1.0


def _nearest_mean_accuracy(h: Tensor, data: LabelledGraph) -> float:
    train, test = data.splits["train"], data.splits["test"]
    rows = functional.normalize(h.double(), eps=1e-300)
    means = rows.new_zeros(len(data.classes), h.shape[1]).index_add(0, data.labels[train], rows[train])
    predicted = (rows[test] @ functional.normalize(means, eps=1e-300).T).argmax(1)
    return float((predicted == data.labels[test]).double().mean())


def _narrowed(x: Tensor | SparseFeatures) -> Tensor:
    directions = torch.randn(x.shape[1], WIDTH, generator=torch.Generator().manual_seed(0)) / WIDTH**0.5
    return project(x, directions.mT) if isinstance(x, SparseFeatures) else x @ directions
