"""The backward pass of minGRU by hand: a line of maths above a line of code."""

from typing import NamedTuple

import torch
from torch import Tensor


class MinGRUGradient(NamedTuple):
    x: Tensor  # T B D
    weight_z: Tensor  # H D
    weight_c: Tensor  # H D


def gradient(dy: Tensor, x: Tensor, weight_z: Tensor, weight_c: Tensor, h: Tensor) -> MinGRUGradient:
    """dy (T, B, H) is the gradient that reaches the answer h (T, B, H)."""
    # z[t] = sigmoid(Wz x[t]), c[t] = Wc x[t]
    z, c = torch.sigmoid(x @ weight_z.mT), x @ weight_c.mT
    # h[t-1], 0 before the first step
    h_previous = torch.cat([torch.zeros_like(h[:1]), h[:-1]])
    # dE/dh[t] = dy[t] + z[t+1] dE/dh[t+1]
    reaching, dh = torch.zeros_like(h[0]), []
    for dy_t, z_t in zip(dy.flip(0), z.flip(0), strict=True):
        reaching = dy_t + reaching
        dh.append(reaching)
        reaching = z_t * reaching
    dh_t = torch.stack(dh).flip(0)
    # dE/da[t] = dE/dh[t] (h[t-1] - c[t]) z[t] (1 - z[t])        z = sigmoid(a)
    da = dh_t * (h_previous - c) * z * (1 - z)
    # dE/dc[t] = dE/dh[t] (1 - z[t])
    dc = dh_t * (1 - z)
    # a = x Wz^T, c = x Wc^T
    return MinGRUGradient(
        x=da @ weight_z + dc @ weight_c,
        weight_z=torch.einsum("tbh,tbd->hd", da, x),
        weight_c=torch.einsum("tbh,tbd->hd", dc, x),
    )
