"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

y = Ahat x W + b is the layer. Of Ahat the way back needs the transposed alone.
"""

from typing import NamedTuple

from torch import Tensor

from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.kernels import product


class Gradient(NamedTuple):
    """Of the features (N, D), the weight (D, H) and the bias (H)."""

    x: Tensor
    weight: Tensor
    bias: Tensor


def propagate_gradient(
    dy: Tensor, back: Csr, wants_x: bool = True, wants_bias: bool = True
) -> tuple[Tensor | None, Tensor | None]:
    """Of y = Ahat x + b, from dy (N, H) and the transposed Ahat: dx (N, H) and db (H), where they are wanted."""
    # dx[j] = sum over i of Ahat[i, j] dy[i]         dx = Ahat^T dy
    dx = product(back, dy) if wants_x else None
    # db = sum over i of dy[i]
    db = dy.sum(0) if wants_bias else None
    return dx, db


def project_gradient(dz: Tensor, back: Csr) -> Tensor:
    """Of z = x W for sparse x, from dz (N, H) and the transposed x: dW (D, H)."""
    # dW = x^T dz
    return product(back, dz)


def layer_gradient(dy: Tensor, x: Tensor, weight: Tensor, there: Csr, back: Csr, project_first: bool) -> Gradient:
    """Of y = Ahat x W + b, in the order that the forward pass took."""
    # db = sum over i of dy[i]
    db = dy.sum(0)
    if project_first:
        # y = Ahat z + b, z = x W:               dz = Ahat^T dy
        dz = product(back, dy)
        # dx = dz W^T
        dx = dz @ weight.mT
        # dW = x^T dz
        dW = x.mT @ dz
    else:
        # y = p W + b, p = Ahat x:               dp = dy W^T
        dp = dy @ weight.mT
        # dx = Ahat^T dp
        dx = product(back, dp)
        # dW = p^T dy
        dW = product(there, x).mT @ dy
    return Gradient(dx, dW, db)
