"""A picture of many dimensions in two: the directions along which the nodes differ most."""

import torch
from torch import Tensor

from porism.runs.exhibits import Points
from porism.tasks.graphs.data.labelled_graph import UNKNOWN, LabelledGraph

MOST_POINTS = 1500
"""More would hide each other."""


def principal_plane(h: Tensor) -> Tensor:
    """Rows (n, H) on their two principal axes, (n, 2). The sign of an axis is such that its largest entry is positive.

    >>> principal_plane(torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]))
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """
    centred = (h - h.mean(0)).double()
    _, axes = torch.linalg.eigh(centred.T @ centred)  # rising eigenvalues
    plane = torch.zeros(len(h), 2, dtype=torch.float64)
    found = axes[:, -2:].flip(1)
    largest = found.gather(0, found.abs().argmax(0, keepdim=True))
    plane[:, : found.shape[1]] = centred @ (found * largest.sign())
    return plane.to(h.dtype)


def hidden_map(hidden: Tensor, data: LabelledGraph) -> Points:
    """Where the nodes of known class lie in the hidden layer. hidden (N, H)."""
    plane = principal_plane(hidden.cpu())
    known = (data.labels != UNKNOWN).nonzero()[:, 0]
    shown = known[:: -(-len(known) // MOST_POINTS)]
    groups = {
        name: [(round(x, 4), round(y, 4)) for x, y in plane[shown[data.labels[shown] == number]].tolist()]
        for number, name in enumerate(data.classes)
    }
    return Points(
        title="The hidden layer in two dimensions",
        about="Every dot is a node at its place on the two principal axes, coloured by what it is.",
        groups={name: places for name, places in groups.items() if places},
    )
