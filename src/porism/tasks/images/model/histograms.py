"""Two simple models of pixels, which a net must beat: each position for itself, each pixel given its left neighbour."""

import torch
from torch import Tensor

DOUBT = 1.0
"""Counts added to every level, shared among them, so that no unseen level is impossible."""


class PositionHistogram:
    """How often each level was seen at each position.

    Shapes: levels (N, C, Y, X), whole numbers below `levels`.
    """

    def __init__(self, train: Tensor, levels: int) -> None:
        counts = torch.stack([(train == level).sum(0) for level in range(levels)]).double() + DOUBT / levels
        self.bits = -(counts / counts.sum(0)).log2()  # levels C Y X

    def bits_per_dimension(self, images: Tensor) -> float:
        return float(self.bits.gather(0, images).mean())


class LeftHistogram:
    """How often each level was seen to the right of each; left of the first column is a level of its own."""

    def __init__(self, train: Tensor, levels: int) -> None:
        self.levels = levels
        counts = torch.bincount(self._pairs(train), minlength=(levels + 1) * levels).view(levels + 1, levels)
        smooth = counts.double() + DOUBT / levels
        self.bits = -(smooth / smooth.sum(1, keepdim=True)).log2()

    def _pairs(self, images: Tensor) -> Tensor:
        left = torch.nn.functional.pad(images[..., :-1], (1, 0), value=self.levels)
        return (left * self.levels + images).flatten()

    def bits_per_dimension(self, images: Tensor) -> float:
        return float(self.bits.flatten()[self._pairs(images)].mean())
