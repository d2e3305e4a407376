"""The oracle: minGRU by loops over the equations, clear and slow."""

import torch
from torch import Tensor


def min_gru(x: Tensor, weight_z: Tensor, weight_c: Tensor) -> Tensor:
    """h[t] = z[t] h[t-1] + (1 - z[t]) c[t], z[t] = sigmoid(Wz x[t]), c[t] = Wc x[t], from h = 0 on."""
    h = x.new_zeros(x.shape[1], weight_z.shape[0])  # B H
    states = []
    for x_t in x:  # T times B D
        z = torch.sigmoid(x_t @ weight_z.mT)
        h = z * h + (1 - z) * (x_t @ weight_c.mT)
        states.append(h)
    return torch.stack(states)
