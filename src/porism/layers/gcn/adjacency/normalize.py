"""How a sum over neighbors is weighted: Ahat from A, by the name of the normalization."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import rows_of
from porism.layers.gcn.adjacency.edges import Neighbors

NORMALIZATIONS = ("none", "rw", "sym", "softmax")
FLOWS = ("source_to_target", "target_to_source")
RENAMED = {"row": "rw", "symmetric": "sym"}
"""Names of 0.1."""


class Normalization(NamedTuple):
    """What Ahat is made of: A + loop_weight I, normalized by `kind`. A loop that a node has already is kept.

    >>> Normalization.of("sym", improved=True)
    Normalization(kind='sym', loop_weight=2, flow='source_to_target')
    """

    kind: str
    loop_weight: int
    flow: str

    @classmethod
    def of(
        cls,
        normalization: str | None = "sym",
        add_self_loops: bool | None = None,
        improved: bool = False,
        normalize: bool = True,
        flow: str = "source_to_target",
    ) -> "Normalization":
        """From the options of GCNConv. "none" is None."""
        kind = "none" if normalization is None else normalization
        if kind not in NORMALIZATIONS:
            renamed = f" {kind!r} is now {RENAMED[kind]!r}." if kind in tuple(RENAMED) else ""
            raise ShapeError(f"gcn: normalization is {kind!r}. Choose from 'sym', 'rw', 'softmax' or None.{renamed}")
        if flow not in FLOWS:
            raise ShapeError(f"gcn: flow is {flow!r}. Choose from {FLOWS[0]!r} or {FLOWS[1]!r}.")
        if not normalize:
            if add_self_loops:
                raise ShapeError(
                    "gcn: add_self_loops=True with normalize=False, which takes the edges as they are. "
                    "Use normalization=None for A + I without a normalization."
                )
            if kind not in ("sym", "none"):
                raise ShapeError(f"gcn: normalization={kind!r} with normalize=False. Leave out one of them.")
            return cls("none", 0, flow)
        adds = add_self_loops is None or add_self_loops
        return cls(kind, (2 if improved else 1) if adds else 0, flow)

    def matrix_name(self, dtype: torch.dtype) -> str:
        """The attribute of Propagations that holds this matrix: float64 for float64, and float32 for all else."""
        precision = "float64" if dtype is torch.float64 else "float32"
        return f"{self.kind}_plus_{self.loop_weight}_{self.flow}_{precision}"


def normalize(neighbors: Neighbors, kind: str, dtype: torch.dtype) -> Tensor:
    """The value of every stored entry, (E).

    >>> columns = torch.tensor([0, 1, 0, 1, 2, 1, 2]).int()
    >>> path = Neighbors(torch.tensor([0, 2, 5, 7]), columns, None)     # with self-loops
    >>> normalize(path, "rw", torch.float64)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333, 0.5000, 0.5000], dtype=torch.float64)

    - `none`: the weights as they are
    - `rw`: D^-1 A, each row sums to one
    - `sym`: D^-1/2 A D^-1/2, all eigenvalues between -1 and 1 where A is symmetric
    - `softmax`: exp(w) over the sum of exp(w) of all neighbors; `rw`, where all weights are equal

    D holds the row sums of A. A node without neighbors has an empty row. Weights below 0 are taken as they are; `rw`
    and `sym` refuse them where they leave a node no sum above 0 to divide by.
    """
    values = _normalized(neighbors, kind).to(dtype)
    if not values.isfinite().all():
        entry = int((~values.isfinite()).nonzero()[0])
        node = int(rows_of(neighbors.starts)[entry])
        raise ShapeError(
            f"gcn: {kind} makes {float(values[entry])} of the weight of an edge to node {node}, beyond {dtype}. "
            "Scale the weights."
        )
    return values


def _normalized(neighbors: Neighbors, kind: str) -> Tensor:
    starts, columns, weights = neighbors
    if kind == "none":
        return torch.ones_like(columns, dtype=torch.float32) if weights is None else weights
    # Nodes are few: what is computed for each of them is exact, and rounded once.
    rows = rows_of(starts)
    if weights is not None and kind == "softmax":
        weights = _exponentials(weights, rows, neighbors.nodes)
    degrees = starts.diff().double() if weights is None else _row_sums(weights, rows, neighbors.nodes)
    if weights is not None:
        _check_degrees(degrees, _row_sums(weights.abs(), rows, neighbors.nodes), starts.diff(), kind)
    if kind == "sym":
        scale = torch.where(degrees > 0, degrees, torch.inf).rsqrt()
        values = scale.index_select(0, rows).mul_(scale.index_select(0, columns))
    else:
        values = torch.where(degrees > 0, degrees, torch.inf).reciprocal().index_select(0, rows)
    return values if weights is None else values.mul_(weights)


def _row_sums(values: Tensor, rows: Tensor, height: int) -> Tensor:
    return values.new_zeros(height).index_add_(0, rows, values)


def _exponentials(weights: Tensor, rows: Tensor, height: int) -> Tensor:
    """exp(w - the largest w of its row), so that none overflows."""
    largest = weights.new_full((height,), -torch.inf).scatter_reduce_(0, rows, weights, "amax")
    return torch.exp(weights - largest[rows])


def _check_degrees(degrees: Tensor, sizes: Tensor, entries: Tensor, kind: str) -> None:
    """Refuses sums that cannot be divided by: below 0, beyond float64, or no more than rounding errors of the weights.

    A row of weights 0 stays 0.
    """
    rounding = sizes * entries * torch.finfo(degrees.dtype).eps
    refused = ~degrees.isfinite() | ((degrees <= rounding) & (sizes > 0))
    if refused.any():
        node = int(refused.nonzero()[0])
        raise ShapeError(
            f"gcn: the weights of the edges to node {node} sum to {float(degrees[node]):.6g}, and {kind} divides by "
            "the sum. Give weights from 0 on, or choose softmax or None."
        )
