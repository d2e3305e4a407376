"""The oracle: one word at a time, clear and slow. Row vectors, as in the README."""

import torch
from torch import Tensor


def scores(h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """z = h U + b for one state h (H), with U kept transposed as weight (V, H)."""
    z = torch.stack([(h * word).sum() for word in weight])
    return z if bias is None else z + bias


def cross_entropy(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """J, the sum over n of -log softmax(h[n] U + b)[y[n]]: h (N, H), weight (V, H), bias (V), y (N).

    With label smoothing e the target is y[n] with weight 1 - e, and every word with weight e / V.
    """
    J = torch.zeros((), dtype=h.dtype)
    for h_n, y_n in zip(h, targets, strict=True):
        if y_n == ignore_index:
            continue
        z = scores(h_n, weight, bias)
        # The largest score goes out of numerator and denominator, so that no exp overflows.
        largest = z.max()
        log_p = z - largest - torch.log(torch.exp(z - largest).sum())
        J = J - (1 - label_smoothing) * log_p[y_n] - label_smoothing * log_p.mean()
    return J
