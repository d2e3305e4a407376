"""SpecAugment: training spectrograms with random masks over frequency and time.

All on the spectrograms' device, without synchronising with the host.
"""

import torch
from torch import Tensor


def mask_frequencies(features: Tensor, masks: int, widest: int) -> Tensor:
    """Every spectrogram with up to `masks` bands of at most `widest` channels set to 0, which is their mean.

    >>> mask_frequencies(torch.ones(8, 100, 80), masks=2, widest=20).shape
    torch.Size([8, 100, 80])
    """
    sizes = torch.full((len(features),), features.shape[2], device=features.device)
    mask = random_spans(sizes, features.shape[2], masks, torch.full_like(sizes, widest))
    return features.masked_fill(mask[:, None, :], 0)


def mask_times(features: Tensor, lengths: Tensor, masks: int, share: float) -> Tensor:
    """Every spectrogram with up to `masks` spans of frames set to 0, each at most a share of its length."""
    mask = random_spans(lengths, features.shape[1], masks, (share * lengths).long())
    return features.masked_fill(mask[:, :, None], 0)


def random_spans(sizes: Tensor, longest: int, count: int, widest: Tensor) -> Tensor:
    """(B, longest), True in `count` spans of each row, each up to `widest` wide and within the first `sizes`."""
    B = len(sizes)
    uniform = torch.rand(2, B, count, 1, device=sizes.device)
    widths = (uniform[0] * (widest + 1)[:, None, None]).long()
    starts = (uniform[1] * (sizes[:, None, None] - widths + 1).clamp(min=1)).long()
    position = torch.arange(longest, device=sizes.device)
    return ((position >= starts) & (position < starts + widths)).any(1)
