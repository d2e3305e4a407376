"""How far an estimate of dl/dv is off: its bias and its variance, exactly where all samples can be gone through."""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import RecipeError
from porism.layers.skipgram.estimators import ESTIMATORS, Sample
from porism.layers.skipgram.gradient import gradient
from porism.layers.skipgram.noise import Noise

MOST_SAMPLES = 10**6
"""Ways to draw that are gone through one by one; beyond, measure."""


class Moments(NamedTuple):
    """Of the estimate of dl/dv: mean (D,), mean less the exact gradient (D,), E|g - E g|^2 and E|g|^2."""

    mean: Tensor
    bias: Tensor
    variance: float
    second_moment: float


def enumerated(name: str, v: Tensor, U: Tensor, j: int, q: Tensor, m: int) -> Moments:
    """Exactly, over every way to draw m samples out of V words: v (D,), U (V, D), q (V,).

    >>> v, U = torch.randn(2).double(), torch.randn(3, 2).double()
    >>> q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    >>> bool(enumerated("importance", v, U, 1, q, m=4).bias.norm() < 1e-12)
    True

    The order of samples changes no estimate, so each multiset is visited once: (V + m - 1)! / (m! (V - 1)!) of them.
    """
    ways = math.comb(len(U) + m - 1, m)
    if ways > MOST_SAMPLES:
        raise RecipeError(
            f"moments: there are {ways} ways to draw {m} of {len(U)} words, at most {MOST_SAMPLES} are gone through. "
            "Use measured, or a smaller vocabulary."
        )
    k = torch.tensor(list(combinations_with_replacement(range(len(U)), m)))  # (ways, m), each row in order
    # m! / prod c! orders for a multiset in which a word occurs c times; c! is the product of 1 to c along its run.
    run = torch.ones(ways, dtype=torch.float64)
    log_orders = torch.full((ways,), math.lgamma(m + 1), dtype=torch.float64)
    for t in range(1, m):
        run = torch.where(k[:, t] == k[:, t - 1], run + 1, 1.0)
        log_orders -= run.log()
    return _moments(_estimates(name, v, U, j, q, k), (log_orders + q.log()[k].sum(1)).exp(), v, U, j)


def measured(
    name: str, v: Tensor, U: Tensor, j: int, noise: Noise, m: int, draws: int, generator: torch.Generator | None = None
) -> Moments:
    """By drawing `draws` times, for vocabularies of any size."""
    k = noise.draw((draws, m), generator)
    found = _estimates(name, v, U, j, noise.probabilities, k)
    return _moments(found, torch.full((draws,), 1 / draws, dtype=torch.float64), v, U, j)


def first_order_bias(v: Tensor, U: Tensor, q: Tensor, m: int) -> Tensor:
    """Of the self-normalised estimate of dl/dv = u_j - mu, (D,): that of mu is -(1/m) sum (p_k^2 / q_k) (u_k - mu)."""
    p = torch.softmax(U @ v, 0)
    mu = p @ U
    return (p**2 / q) @ (U - mu) / m


def _estimates(name: str, v: Tensor, U: Tensor, j: int, q: Tensor, k: Tensor) -> Tensor:
    """dl/dv for each row of samples, (n, D), in blocks that stay small."""
    scores, log_q = U @ v, q.log()
    found = []
    for rows in k.split(max(1, 2**22 // k[0].numel() // U.shape[1])):
        at_j = [value.expand(len(rows)) for value in (scores[j], log_q[j], scores.logsumexp(0))]
        c = ESTIMATORS[name](Sample(at_j[0], scores[rows], at_j[1], log_q[rows], rows == j, at_j[2], vocabulary=len(U)))
        # c_j u_j + sum c_k u_k                 (n, 1, m) (n, m, D) -> (n, D)
        found.append(c.context[:, None] * U[j] + torch.bmm(c.samples[:, None], U[rows]).squeeze(1))
    return torch.cat(found)


def _moments(estimates: Tensor, weights: Tensor, v: Tensor, U: Tensor, j: int) -> Moments:
    exact = -gradient(v[None], U, torch.tensor([j])).v[0]
    mean = weights @ estimates
    variance = float(weights @ ((estimates - mean) ** 2).sum(1))
    return Moments(mean, mean - exact, variance, float(weights @ (estimates**2).sum(1)))
