"""The state as the layer has it, (N, M, H+1), and as the kernels have it: features in tiles, the weights apart.

The layer's features are 1, x and the turns, with 1 / sqrt 2 at a turn that is its own opposite; those of the kernels
are the turns, x and 1, with no factor on the side of the keys. So a sum over keys is theirs, times that factor. A
gradient goes the other way, and so does its factor; the kernels have its weights with the opposite sign.
"""

from functools import cache
from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import pad

FEATURES = 64
"""Features in a tile: the rows that one group of four warps multiplies at once."""

Tiles = tuple[Tensor, Tensor]
"""Sums (N, M, H) and weights (N, M) in float32, M and H those of whole tiles."""


def features(D: int) -> int:
    """M: the features of a vector in whole tiles."""
    return FEATURES * -(-((D // 2 + 2) * D + 1) // FEATURES)


def weight_count(D: int) -> int:
    """W: how many weights there are, one a feature."""
    return features(D)


def to_tiles(state: Tensor, D: int, M: int, H: int, gradient: bool = False) -> Tiles:
    """From the layer's state, or from a gradient that reaches it; M and H are those of whole tiles."""
    order, factor = _plan(D, state.device)
    rows = state.float().index_select(1, order) * (factor if gradient else 1 / factor)
    rows = pad(rows, (0, 0, 0, M - rows.shape[1]))
    weights = -rows[..., -1] if gradient else rows[..., -1].contiguous()
    return pad(rows[..., :-1], (0, H - rows.shape[2] + 1)).contiguous(), weights


def from_tiles(state: Tiles, _given: Tensor | None, D: int, H: int, gradient: bool = False) -> Tensor:
    """The opposite: (N, M, H+1). Nothing of the state that was given passes the kernels by."""
    sums, weights = state
    order, factor = _plan(D, sums.device)
    weights = -weights if gradient else weights
    rows = torch.cat([sums[..., :H], weights.unsqueeze(-1)], dim=-1)[:, : len(order)]
    rows = rows * (1 / factor if gradient else factor)
    return torch.empty_like(rows).index_copy_(1, order, rows)


def passed(first: Tensor | None, dlast: Tensor, D: int) -> Tensor:
    """(N, 1): what reaches the logarithm of what is left of a first state, by what passes the kernels by: nothing."""
    return dlast.new_zeros(len(dlast), 1)


@cache
def _plan(D: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where each feature of the kernels stands in the layer's order, (M), and its factor there, (M, 1)."""
    pairs = (D // 2 + 1) * D
    order = torch.cat([torch.arange(1 + D, 1 + D + pairs), torch.arange(1, 1 + D), torch.zeros(1, dtype=torch.long)])
    factor = torch.ones(len(order), 1)
    factor[:D] = factor[pairs - D : pairs] = sqrt(0.5)
    return order.to(device), factor.to(device)
