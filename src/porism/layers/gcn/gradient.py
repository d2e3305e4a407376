"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

y = Ahat x W^T + b is the layer, W (H, D) as in torch.nn.Linear. Of Ahat the backward pass needs the transposed alone.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.kernels import product


class GCNGradient(NamedTuple):
    """Of the features (N, D), the weight (H, D) and the bias (H)."""

    x: Tensor
    weight: Tensor
    bias: Tensor


def product_gradient(
    dy: Tensor,
    transposed: tuple[Tensor, Tensor, Tensor],
    needs_x: bool = True,
    needs_bias: bool = True,
    product: Callable[..., Tensor] = product,
) -> tuple[Tensor | None, Tensor | None]:
    """Of y = A x + b for a sparse A, from dy (N, H) and the transposed A: dx and db (H), where they are needed.

    `product` multiplies a sparse matrix: the layer passes one that autograd can differentiate once more.
    """
    # dx[j] = sum over i of A[i, j] dy[i]            dx = A^T dy
    dx = product(transposed, dy) if needs_x else None
    # db = sum over i of dy[i]
    db = dy.sum(0) if needs_bias else None
    return dx, db


def layer_gradient(dy: Tensor, x: Tensor, weight: Tensor, there: Csr, back: Csr, project_first: bool) -> GCNGradient:
    """Of y = Ahat x W^T + b, in the order that the forward pass took."""
    # db = sum over i of dy[i]
    db = dy.sum(0)
    if project_first:
        # y = Ahat z + b, z = x W^T:             dz = Ahat^T dy
        dz = product(back, dy)
        # dx = dz W
        dx = dz @ weight
        # dW = dz^T x
        dW = dz.mT @ x
    else:
        # y = p W^T + b, p = Ahat x:             dp = dy W
        dp = dy @ weight
        # dx = Ahat^T dp
        dx = product(back, dp)
        # dW = dy^T p
        dW = dy.mT @ product(there, x)
    return GCNGradient(dx, dW, db)
