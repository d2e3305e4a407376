"""How loud a node hears each neighbour: the four normalisations of A + I, by name."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.csr import rows_of
from porism.layers.gcn.edges import Neighbours

NORMALISATIONS = ("none", "row", "symmetric", "softmax")


def check_normalisation(normalisation: str) -> None:
    if normalisation not in NORMALISATIONS:
        raise ShapeError(f"gcn: normalisation is {normalisation!r}. Choose from {', '.join(NORMALISATIONS)}.")


def normalise(heard: Neighbours, normalisation: str, dtype: torch.dtype) -> Tensor:
    """The value of every stored entry, (E).

    >>> path = Neighbours(torch.tensor([0, 2, 5, 7]), torch.tensor([0, 1, 0, 1, 2, 1, 2]), None)     # with loops
    >>> normalise(path, "row", torch.float64)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333, 0.5000, 0.5000], dtype=torch.float64)

    - `none`: the weights as they are
    - `row`: D^-1 A, each row sums to one
    - `symmetric`: D^-1/2 A D^-1/2, all eigenvalues between -1 and 1 where A is symmetric
    - `softmax`: exp(w) over the sum of exp(w) of all that the node hears; `row`, where all weights are equal

    D holds the row sums of A. A node that hears nobody has an empty row.
    """
    check_normalisation(normalisation)
    starts, columns, weights = heard
    if normalisation == "none":
        return torch.ones_like(columns, dtype=dtype) if weights is None else weights.to(dtype)
    # Nodes are few: what is computed for each of them is exact, and rounded once.
    rows = rows_of(starts)
    if weights is None or normalisation == "softmax":
        loudness = None if weights is None else _exponentials(weights, rows, heard.nodes)
    else:
        loudness = weights
    degrees = starts.diff().double() if loudness is None else _row_sums(loudness, rows, heard.nodes)
    _check_degrees(degrees, starts, normalisation)
    if normalisation == "symmetric":
        scale = torch.where(degrees > 0, degrees, torch.inf).rsqrt()
        values = scale.index_select(0, rows).mul_(scale.index_select(0, columns))
    else:
        values = torch.where(degrees > 0, degrees, torch.inf).reciprocal().index_select(0, rows)
    return (values if loudness is None else values.mul_(loudness)).to(dtype)


def _row_sums(values: Tensor, rows: Tensor, height: int) -> Tensor:
    return values.new_zeros(height).index_add_(0, rows, values)


def _exponentials(weights: Tensor, rows: Tensor, height: int) -> Tensor:
    """exp(w - the largest w of its row), so that none overflows."""
    largest = weights.new_full((height,), -torch.inf).scatter_reduce_(0, rows, weights, "amax")
    return torch.exp(weights - largest[rows])


def _check_degrees(degrees: Tensor, starts: Tensor, normalisation: str) -> None:
    """A row of weights 0 stays 0. Weights of both signs may sum to nothing that can be divided by."""
    if (degrees < 0).any():
        place = int((degrees < 0).nonzero()[0])
        raise ShapeError(
            f"gcn: the weights that node {place} hears sum to {float(degrees[place]):.6g}, and {normalisation} divides "
            "by the sum. Give weights from 0 on, or choose none or softmax."
        )
