"""How loud a node hears each neighbour: the four normalisations of A + I, by name."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import rows_of
from porism.layers.gcn.adjacency.edges import Neighbours

NORMALISATIONS = ("none", "row", "symmetric", "softmax")


def check_normalisation(normalisation: str) -> None:
    if normalisation not in NORMALISATIONS:
        raise ShapeError(f"gcn: normalisation is {normalisation!r}. Choose from {', '.join(NORMALISATIONS)}.")


def normalise(heard: Neighbours, normalisation: str, dtype: torch.dtype) -> Tensor:
    """The value of every stored entry, (E).

    >>> columns = torch.tensor([0, 1, 0, 1, 2, 1, 2]).int()
    >>> path = Neighbours(torch.tensor([0, 2, 5, 7]), columns, None)     # with loops
    >>> normalise(path, "row", torch.float64)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333, 0.5000, 0.5000], dtype=torch.float64)

    - `none`: the weights as they are
    - `row`: D^-1 A, each row sums to one
    - `symmetric`: D^-1/2 A D^-1/2, all eigenvalues between -1 and 1 where A is symmetric
    - `softmax`: exp(w) over the sum of exp(w) of all that the node hears; `row`, where all weights are equal

    D holds the row sums of A. A node that hears nobody has an empty row. Weights below 0 are taken as they are; `row`
    and `symmetric` refuse them where they leave a node no sum above 0 to divide by.
    """
    check_normalisation(normalisation)
    values = _normalised(heard, normalisation).to(dtype)
    if not values.isfinite().all():
        place = int((~values.isfinite()).nonzero()[0])
        node = int(rows_of(heard.starts)[place])
        raise ShapeError(
            f"gcn: {normalisation} makes {float(values[place])} of a weight that node {node} hears, beyond {dtype}. "
            "Scale the weights."
        )
    return values


def _normalised(heard: Neighbours, normalisation: str) -> Tensor:
    starts, columns, weights = heard
    if normalisation == "none":
        return torch.ones_like(columns, dtype=torch.float32) if weights is None else weights
    # Nodes are few: what is computed for each of them is exact, and rounded once.
    rows = rows_of(starts)
    if weights is None or normalisation == "softmax":
        loudness = None if weights is None else _exponentials(weights, rows, heard.nodes)
    else:
        loudness = weights
    degrees = starts.diff().double() if loudness is None else _row_sums(loudness, rows, heard.nodes)
    if loudness is not None:
        _check_degrees(degrees, _row_sums(loudness.abs(), rows, heard.nodes), starts.diff(), normalisation)
    if normalisation == "symmetric":
        scale = torch.where(degrees > 0, degrees, torch.inf).rsqrt()
        values = scale.index_select(0, rows).mul_(scale.index_select(0, columns))
    else:
        values = torch.where(degrees > 0, degrees, torch.inf).reciprocal().index_select(0, rows)
    return values if loudness is None else values.mul_(loudness)


def _row_sums(values: Tensor, rows: Tensor, height: int) -> Tensor:
    return values.new_zeros(height).index_add_(0, rows, values)


def _exponentials(weights: Tensor, rows: Tensor, height: int) -> Tensor:
    """exp(w - the largest w of its row), so that none overflows."""
    largest = weights.new_full((height,), -torch.inf).scatter_reduce_(0, rows, weights, "amax")
    return torch.exp(weights - largest[rows])


def _check_degrees(degrees: Tensor, sizes: Tensor, entries: Tensor, normalisation: str) -> None:
    """Refuses sums that cannot be divided by: below 0, beyond float64, or nothing but what rounding left of the sizes.

    A row of weights 0 stays 0.
    """
    rounding = sizes * entries * torch.finfo(degrees.dtype).eps
    refused = ~degrees.isfinite() | ((degrees <= rounding) & (sizes > 0))
    if refused.any():
        place = int(refused.nonzero()[0])
        raise ShapeError(
            f"gcn: the weights that node {place} hears sum to {float(degrees[place]):.6g}, and {normalisation} divides "
            "by the sum. Give weights from 0 on, or choose none or softmax."
        )
