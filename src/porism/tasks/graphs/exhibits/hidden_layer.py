"""The hidden layer on its two principal components."""

import torch
from torch import Tensor

from porism.runs.exhibits import Points
from porism.tasks.graphs.data.labelled_graph import UNKNOWN, LabelledGraph

MOST_POINTS = 1500
"""More would overlap."""


def principal_plane(h: Tensor) -> Tensor:
    """Rows (n, H) on their two principal axes, (n, 2). The sign of an axis is such that its largest entry is positive.

    >>> principal_plane(torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]))
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """
    centred = (h - h.mean(0)).double()
    _, axes = torch.linalg.eigh(centred.T @ centred)  # rising eigenvalues
    plane = torch.zeros(len(h), 2, dtype=torch.float64)
    components = axes[:, -2:].flip(1)
    largest = components.gather(0, components.abs().argmax(0, keepdim=True))
    plane[:, : components.shape[1]] = centred @ (components * largest.sign())
    return plane.to(h.dtype)


def hidden_map(hidden: Tensor, data: LabelledGraph) -> Points:
    """The nodes of known class in the hidden layer (N, H)."""
    plane = principal_plane(hidden.cpu())
    known = (data.labels != UNKNOWN).nonzero()[:, 0]
    shown = known[:: -(-len(known) // MOST_POINTS)]
    groups = {
        name: [(round(x, 4), round(y, 4)) for x, y in plane[shown[data.labels[shown] == number]].tolist()]
        for number, name in enumerate(data.classes)
    }
    return Points(
        title="The hidden layer in two dimensions",
        about="Every dot is a node at its position on the two principal axes, coloured by its class.",
        groups={name: points for name, points in groups.items() if points},
    )
