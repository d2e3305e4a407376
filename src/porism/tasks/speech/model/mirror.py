"""Rows of several lengths, turned round."""

import torch
from torch import Tensor


def mirror(x: Tensor, lengths: Tensor, axis: int) -> Tensor:
    """Each row's first `length` elements along an axis from last to first; what is behind them stays.

    >>> mirror(torch.tensor([[1, 2, 3, 0]]), torch.tensor([3]), axis=1)
    tensor([[3, 2, 1, 0]])
    """
    place = torch.arange(x.shape[axis], device=x.device)
    turned = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)  # B, size of the axis
    shape = [1] * x.dim()
    shape[0], shape[axis] = turned.shape
    return x.gather(axis, turned.view(shape).expand_as(x))
