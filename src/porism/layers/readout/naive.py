"""The oracle: one word at a time, clear and slow. Row vectors, as in the README."""

import torch
from torch import Tensor


def scores(h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """z = h U + b for one state h (H), with U kept transposed as weight (V, H)."""
    z = torch.stack([(h * word).sum() for word in weight])
    return z if bias is None else z + bias


def cross_entropy(h: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """J, the sum over n of -log softmax(h[n] U + b)[y[n]]: h (N, H), weight (V, H), bias (V), y (N)."""
    J = torch.zeros((), dtype=h.dtype)
    for h_n, y_n in zip(h, targets, strict=True):
        z = scores(h_n, weight, bias)
        # The largest score goes out of numerator and denominator, so that no exp overflows.
        largest = z.max()
        J = J + torch.log(torch.exp(z - largest).sum()) + largest - z[y_n]
    return J
