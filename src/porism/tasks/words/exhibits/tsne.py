"""t-SNE: rows as points in the plane, on which neighbours stay neighbours. All pairs of at most some hundred rows.

van der Maaten and Hinton, Visualizing Data using t-SNE, 2008. p_ij says how near i and j are, q_ij how near their
points are; the points go down the gradient of KL(p, q), with p exaggerated at first, so that clusters find room.

Written here since scikit-learn's, made for many thousand rows, takes up to twice as long for 500 and must be imported
first: a map of words took 4.2 s with it, most of that the import, and takes 1.1 s with this.
"""

import math

import torch
from torch import Tensor

STEPS = 500
EXAGGERATED_STEPS = 250
EXAGGERATION = 12.0
MOMENTUM_AT_FIRST, MOMENTUM = 0.5, 0.8
LEAST_GAIN = 0.01
START = 1e-4
"""Standard deviation of the points at the start."""
HALVINGS = 35
"""Of the interval that a row's precision is searched in: from 2^-10 to 2^40 over the mean distance."""
Scratch = tuple[Tensor, Tensor]
"""Memory for two matrices over all pairs, which every step writes anew: to get it from the system takes longer than the
sums that fill it."""


def embed(x: Tensor, perplexity: float, steps: int = STEPS) -> Tensor:
    """Rows (N, D) as points in the plane around its origin, (N, 2), starting from their two principal components.

    perplexity: how many neighbours a row has, about. At most a third of the others are taken.
    """
    N = len(x)
    if N < 3:
        return torch.arange(N, dtype=x.dtype)[:, None].repeat(1, 2) - max(0, N - 1) / 2
    p = affinities(x, min(perplexity, (N - 1) / 3)).float()
    exaggerated = EXAGGERATION * p
    y = principal(x).float()
    rate = max(N / EXAGGERATION / 4, 50.0)
    scratch = torch.empty_like(p), torch.empty_like(p)
    for step in range(steps):
        early = step < EXAGGERATED_STEPS
        # What a coordinate gained on the exaggerated way down says nothing of the other: kept, maps end a tenth worse.
        if step in (0, EXAGGERATED_STEPS):
            change, gains = torch.zeros_like(y), torch.ones_like(y)
        slope = gradient(exaggerated if early else p, y, scratch)
        # A coordinate that goes on in its direction gets faster.
        turned = slope * change > 0
        gains = torch.where(turned, gains * 0.8, gains + 0.2).clamp_(min=LEAST_GAIN)
        change = (MOMENTUM_AT_FIRST if early else MOMENTUM) * change - rate * gains * slope
        y = y + change
    return (y - y.mean(0)).to(x.dtype)


def principal(x: Tensor) -> Tensor:
    """The first two principal components of the rows, (N, 2), the first with a deviation of START."""
    centred = x - x.mean(0)
    U, S, _ = torch.linalg.svd(centred, full_matrices=False)
    found = x.new_zeros(len(x), 2)
    found[:, : S.numel()] = (U * S)[:, :2]
    return found * (START / found.std(0, correction=0).max().clamp(min=1e-12))


def affinities(x: Tensor, perplexity: float) -> Tensor:
    """p (N, N), which sums up to 1: (p_j|i + p_i|j) / 2N, each row of p_j|i with the perplexity that is requested."""
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    distances /= distances.mean().clamp(min=1e-30)
    # From the nearest on: their weights do not vanish, however large the precision.
    distances -= distances.fill_diagonal_(math.inf).amin(1, keepdim=True)
    distances.fill_diagonal_(0)
    low, high = x.new_full((len(x), 1), -10.0), x.new_full((len(x), 1), 40.0)
    p = torch.empty_like(distances)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        torch.mul(distances, -(2**middle), out=p).exp_().fill_diagonal_(0)
        Z = p.sum(1, keepdim=True)
        # - sum p log p of p = exp(-precision d) / Z is log Z + precision sum p d.   (N, 1, N) (N, N, 1) -> (N, 1, 1)
        entropy = Z.log() + 2**middle * torch.bmm(p[:, None], distances[:, :, None])[:, 0] / Z
        wide = entropy > math.log(perplexity)
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    p /= Z
    return (p + p.T) / (2 * len(x))


def gradient(p: Tensor, y: Tensor, scratch: Scratch | None = None) -> Tensor:
    """dKL/dy_i = 4 sum of (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2) for points (N, 2)."""
    near, pull = scratch or (torch.empty_like(p), torch.empty_like(p))
    squares, ones = y.square().sum(1, keepdim=True), torch.ones_like(y[:, :1])
    # |y_i|^2 + 1 + |y_j|^2 - 2 y_i . y_j as one product; what rounding does to it is little beside the 1.
    torch.mm(torch.cat([squares + 1, ones, y], 1), torch.cat([ones, squares, -2 * y], 1).T, out=near)
    near.reciprocal_().fill_diagonal_(0)
    torch.add(p, near, alpha=-1 / float(near.sum(1).sum()), out=pull).mul_(near)
    return 4 * (pull.sum(1, keepdim=True) * y - pull @ y)
