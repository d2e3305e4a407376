"""What `porism check gradients` compares for this layer."""

from collections.abc import Iterator

import torch
from torch import Tensor

from porism.layers.cases import GradientCase
from porism.layers.recurrent.lstm import naive
from porism.layers.recurrent.lstm.gradient import gradient

B, T, D, H = 2, 7, 3, 5


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    shapes = {"x": (T, B, D), "h0": (B, H), "c0": (B, H), "I": (D, 4 * H), "H": (H, 4 * H), "b": (4 * H,)}
    at = {name: torch.randn(shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}
    dy = torch.randn(T, B, H, generator=draw, dtype=torch.float64)

    def weighted_states(*point: Tensor) -> Tensor:
        return (naive.lstm(*point)[0] * dy).sum()

    yield GradientCase("layer", weighted_states, at, gradient(dy, **at)._asdict())
