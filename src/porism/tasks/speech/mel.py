"""Filters of the mel scale: triangles over frequency, evenly spaced as the ear hears.

Two scales and two ways to draw a triangle are in use, and features only compare where they agree.

>>> slaney_filters(22_050, n_fft=400, mels=80).shape
torch.Size([201, 80])
"""

import math

import torch
from torch import Tensor

LINEAR_BELOW = 1000.0
"""Slaney's scale is linear below, 3 mels for 200 Hz, and logarithmic above: 27 mels for a factor of 6.4."""
MELS_PER_HERTZ = 3 / 200
MELS_PER_LOG = 27 / math.log(6.4)


def slaney_mel(hertz: Tensor) -> Tensor:
    above = LINEAR_BELOW * MELS_PER_HERTZ + MELS_PER_LOG * (hertz.clamp(min=LINEAR_BELOW) / LINEAR_BELOW).log()
    return torch.where(hertz < LINEAR_BELOW, hertz * MELS_PER_HERTZ, above)


def slaney_hertz(mel: Tensor) -> Tensor:
    above = LINEAR_BELOW * ((mel - LINEAR_BELOW * MELS_PER_HERTZ) / MELS_PER_LOG).exp()
    return torch.where(mel < LINEAR_BELOW * MELS_PER_HERTZ, mel / MELS_PER_HERTZ, above)


def kaldi_mel(hertz: Tensor) -> Tensor:
    return 1127 * (1 + hertz / 700).log()


def slaney_filters(rate: int, n_fft: int, mels: int) -> Tensor:
    """(n_fft // 2 + 1, mels) in float64, from 0 to half the rate: straight in hertz, each of the area 1 (in hertz)."""
    frequencies = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    low, high = slaney_mel(torch.tensor([0.0, rate / 2], dtype=torch.float64))
    corners = slaney_hertz(torch.linspace(low, high, mels + 2, dtype=torch.float64))
    return _triangles(frequencies, corners) * (2 / (corners[2:] - corners[:-2]))


def kaldi_filters(rate: int, n_fft: int, mels: int, lowest: float = 20.0) -> Tensor:
    """(n_fft // 2 + 1, mels) in float64, from `lowest` to half the rate: straight in mels, each of the height 1."""
    frequencies = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    low, high = kaldi_mel(torch.tensor([lowest, rate / 2], dtype=torch.float64))
    corners = torch.linspace(low, high, mels + 2, dtype=torch.float64)
    filters = _triangles(kaldi_mel(frequencies), corners)
    # Kaldi leaves out the last frequency, half the rate itself.
    filters[-1] = 0
    return filters


def _triangles(places: Tensor, corners: Tensor) -> Tensor:
    """(F, mels): up from each corner to the next, and down to the one after."""
    low, peak, high = corners[:-2], corners[1:-1], corners[2:]
    rising = (places[:, None] - low) / (peak - low)
    falling = (high - places[:, None]) / (high - peak)
    return torch.minimum(rising, falling).clamp(min=0)
