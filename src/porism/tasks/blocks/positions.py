"""Sinusoidal position encodings, for models that attend without knowing the order."""

import math

import torch
from torch import Tensor


def sinusoidal_positions(length: int, width: int, device: torch.device) -> Tensor:
    """Sines and cosines of each position, with periods of 6 to 60,000 positions: (length, width).

    >>> sinusoidal_positions(2, 4, torch.device("cpu"))[0]
    tensor([0., 0., 1., 1.])
    """
    frequencies = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(length, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]
