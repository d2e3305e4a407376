"""The gradient by hand: a line of maths above a line of code, no autograd.

J = -sum of l, l = u_j . v - log sum_k exp(u_k . v), with v (B, D), U (V, D), j (B,). The README derives it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.skipgram.estimators import Estimate, at_least_float32


class SkipGramGradient(NamedTuple):
    """dJ/dv (B, D) and dJ/dU (V, D)."""

    v: Tensor
    U: Tensor


@torch.no_grad()
def gradient(v: Tensor, U: Tensor, j: Tensor) -> SkipGramGradient:
    """Of the exact loss."""
    # p = softmax(U v)
    p = torch.softmax(v @ U.mT, 1)
    # mu = sum p_k u_k
    mu = p @ U
    # dl/dv = u_j - mu
    dv = U[j] - mu
    # dl/du_k = (y_k - p_k) v                   for every k
    y = torch.nn.functional.one_hot(j, len(U)).to(v.dtype)
    dU = (y - p).mT @ v
    return SkipGramGradient(-dv, -dU)


class RowsGradient(NamedTuple):
    """dJ/dv (B, D), and dJ/du (B, 1 + m, D) of the rows (B, 1 + m) that a sample reaches: j first, then k."""

    v: Tensor
    rows: Tensor
    u: Tensor


@torch.no_grad()
def sampled_gradient(estimate: Estimate, v: Tensor, U: Tensor, j: Tensor, k: Tensor) -> RowsGradient:
    """Of a loss, or an estimate of it, that reaches the rows j (B,) and k (B, m) alone. No row of U is written.

    In the type of the estimate, which is float32 for vectors of lower precision.
    """
    rows = torch.cat([j[:, None], k], 1)
    c = torch.cat([estimate.context[:, None], estimate.samples], 1)
    v, reached = at_least_float32(v), at_least_float32(U[rows])
    # dl/dv = c_j u_j + sum c_k u_k             (B, 1, 1 + m) (B, 1 + m, D) -> (B, D)
    dv = torch.bmm(c[:, None], reached).squeeze(1)
    # dl/du_r = c_r v                           (B, 1 + m, 1) (B, 1, D) -> (B, 1 + m, D)
    du = torch.bmm(c[:, :, None], v[:, None])
    return RowsGradient(-dv, rows, -du)


def gathered(rows_gradient: RowsGradient, U: Tensor) -> Tensor:
    """dJ/dU (V, D): a row that was reached more than once sums what it got."""
    dU = torch.zeros_like(U, dtype=rows_gradient.u.dtype)
    return dU.index_add_(0, rows_gradient.rows.flatten(), rows_gradient.u.flatten(0, 1)).to(U.dtype)


def summed_by_row(rows: Tensor, changes: Tensor) -> tuple[Tensor, Tensor]:
    """Changes (n, D) of rows (n,) with those of one row summed: each row at most once, the rest are zeros for row 0.

    >>> rows, sums = summed_by_row(torch.tensor([7, 2, 7]), torch.tensor([[1.0], [2.0], [3.0]]))
    >>> rows.tolist(), sums.flatten().tolist()
    ([2, 7, 0], [2.0, 4.0, 0.0])
    """
    ordered, order = rows.sort()
    # Which of the different rows each one is: as many are left over as rows come again.
    place = torch.cat([rows.new_zeros(1), (ordered[1:] != ordered[:-1]).long()]).cumsum(0)
    sums = torch.zeros_like(changes).index_add_(0, place, changes[order])
    return torch.zeros_like(rows).scatter_(0, place, ordered), sums
