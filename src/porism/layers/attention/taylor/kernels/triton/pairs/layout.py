"""The state as the layer has it, (N, M, H+1), and as these kernels have it: rows by pairs, the weights apart.

With h = D / 2 the rows of sums are x_i x_j, first for i < h and all j, then for i and j from h on; then x, then 1.
The weights are x_i x_j for all i and j, then x, then 1 and zeros.

The layer's features have 1 / sqrt 2 at a turn that is its own opposite; these have no factor, and half of every product
is counted where a state is read. So a sum is theirs, times that factor, over keys as over queries; of a gradient the
kernels have the weights with the opposite sign.

At the turn D / 2 a pair stands twice in the layer's state, from either of its elements. Sums over tokens are the same
there. In a state that was given, or a gradient, they may differ: the kernels get the mean, since only the sum of both
has an effect on answers, and what they differ by goes past the kernels, from the first state to the last, and back.
"""

from functools import cache
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

LINE = 32
"""Numbers of float32 in a line of memory."""

Tiles = tuple[Tensor, Tensor]
"""Sums (N, M, H) and weights (N, W) in float32, M and H those of whole tiles."""


def features(D: int) -> int:
    """M: the rows of sums."""
    return 3 * D * D // 4 + D + 1


def weight_count(D: int) -> int:
    """W: how many weights there are; the last one and zeros fill a line of memory, so that every slot begins one."""
    return D * D + D + LINE


def to_tiles(state: Tensor, D: int, M: int, H: int, gradient: bool = False) -> Tiles:
    """From the layer's state, or from a gradient that reaches it; M and H are those of whole tiles."""
    plan = _plan(D, state.device)
    rows = (state.float() - _difference(state, D)) / plan.factor
    weights = rows[..., -1].index_select(1, plan.weights)
    rows = pad(rows[..., :-1].index_select(1, plan.sums), (0, H - rows.shape[2] + 1, 0, M - len(plan.sums)))
    weights = pad(-weights if gradient else weights, (0, weight_count(D) - len(plan.weights)))
    return rows.contiguous(), weights


def from_tiles(state: Tiles, given: Tensor | None, D: int, H: int, gradient: bool = False) -> Tensor:
    """The opposite: (N, M, H+1). `given` is the state, or the gradient, that the kernels started from."""
    sums, weights = state
    plan = _plan(D, sums.device)
    weights = weights.index_select(1, plan.of_weights).unsqueeze(-1)
    rows = torch.cat([sums[..., :H].index_select(1, plan.of_sums), -weights if gradient else weights], dim=-1)
    rows = rows * plan.factor
    return rows if given is None else rows + _difference(given, D)


def passed(first: Tensor | None, dlast: Tensor, D: int) -> Tensor:
    """(N, 1): what reaches the logarithm of all that is left of a first state, by the part that passes the kernels by.

    `first` is the state as it is left at the end, dlast what reaches the last one.
    """
    if first is None:
        return dlast.new_zeros(len(dlast), 1)
    return (_difference(first, D) * dlast).sum((1, 2)).unsqueeze(1)


def _difference(state: Tensor, D: int) -> Tensor:
    """What the features of the turn D / 2 differ by from the mean with their opposites, (N, M, H+1)."""
    last = state[:, -D:].float()
    return pad((last - last.roll(D // 2, 1)) / 2, (0, 0, state.shape[1] - D, 0))


class _Plan(NamedTuple):
    """Where each row of the kernels stands in the layer's state, and the opposite; the layer's factors, (M, 1)."""

    sums: Tensor
    weights: Tensor
    of_sums: Tensor
    of_weights: Tensor
    factor: Tensor


@cache
def _plan(D: int, device: torch.device) -> _Plan:
    h = D // 2
    i, j = torch.meshgrid(torch.arange(D), torch.arange(D), indexing="ij")
    # The layer has 1, x, and then x_i x_(i+s) for s = 0 ... h. Of the two turns between i and j it has the shorter one.
    s = (j - i) % D
    turned = 1 + D + torch.where(s <= h, s * D + i, (D - s) * D + j)
    linear = torch.tensor([*range(1, D + 1), 0])
    sums = torch.cat([turned[:h].flatten(), turned[h:, h:].flatten(), linear])
    weights = torch.cat([turned.flatten(), linear])
    # The layer's own order, again: its row 1 + D + s D + i is the pair of i and i + s.
    first = torch.arange(D).repeat(h + 1)
    second = (first + torch.arange(h + 1).repeat_interleave(D)) % D
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    row = torch.where(low < h, low * D + high, h * D + (low - h) * h + high - h)
    ones = torch.tensor([3 * D * D // 4 + D, *range(3 * D * D // 4, 3 * D * D // 4 + D)])
    factor = torch.ones(1 + D + len(row), 1)
    factor[1 + D : 1 + 2 * D] = factor[-D:] = sqrt(0.5)
    found = sums, weights, torch.cat([ones, row]), torch.cat([ones + D * D // 4, first * D + second]), factor
    return _Plan(*(x.to(device) for x in found))
