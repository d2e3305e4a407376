"""Bias and variance of the estimates of dl/dv, exactly where all samples can be enumerated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import embedding_bag

from porism.errors import RecipeError
from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER, SampledPairs
from porism.layers.skipgram.noise import Noise
from porism.runs.exhibits import Table
from porism.tasks.blocks.threads import one_thread

MOST_SAMPLES = 10**6
"""Combinations of samples that are enumerated; beyond, measure."""


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
            f"moments: there are {ways} ways to draw {m} of {len(U)} words, at most {MOST_SAMPLES} are enumerated. "
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
    estimates = _estimates(name, v, U, j, noise.probabilities, k)
    return _moments(estimates, torch.full((draws,), 1 / draws, dtype=torch.float64), v, U, j)


def first_order_bias(v: Tensor, U: Tensor, q: Tensor, m: int) -> Tensor:
    """Of the self-normalised estimate of dl/dv = u_j - mu, (D,): that of mu is -(1/m) sum (p_k^2 / q_k) (u_k - mu)."""
    p = torch.softmax(U @ v, 0)
    mu = p @ U
    return (p**2 / q) @ (U - mu) / m


def _estimates(name: str, v: Tensor, U: Tensor, j: int, q: Tensor, k: Tensor) -> Tensor:
    """dl/dv for each row of samples, (n, D)."""
    scores, log_q = U @ v, q.log()
    at_j = [value.expand(len(k)) for value in (scores[j], log_q[j], scores.logsumexp(0))]
    c = ESTIMATORS[name](SampledPairs(at_j[0], scores[k], at_j[1], log_q[k], k == j, at_j[2], vocabulary=len(U)))
    # c_j u_j + sum c_k u_k: a bag adds up the rows of U where they lie, which copies of them, (n, m, D), do not.
    return embedding_bag(k, U, per_sample_weights=c.samples, mode="sum").addcmul_(c.context[:, None], U[j])


def _moments(estimates: Tensor, weights: Tensor, v: Tensor, U: Tensor, j: int) -> Moments:
    mean = weights @ estimates
    variance, second_moment = (float(weights @ vector_norm(g, dim=1) ** 2) for g in (estimates - mean, estimates))
    return Moments(mean, mean - exact_gradient(v, U, j), variance, second_moment)


FEW_WAYS = 10**4
"""Combinations that are enumerated for each of many pairs."""

INDEPENDENT = ("uniform", "importance", "nce", "negative")
"""In these the weight of a sample does not depend on the others, so that their moments are sums over words."""

DRAWS = 2000
"""For each pair."""


@dataclass(frozen=True)
class EstimationError:
    """Of one estimator, relative to the length of the exact gradient; not a number where that is 0."""

    estimator: str
    rows_read: int
    """Contexts whose vectors it needs for a pair."""
    rows_changed: int
    """Contexts that get a gradient from a pair."""
    bias: float
    standard_error: float
    """Of the bias, at most; 0 where it is exact."""
    deviation: float


@one_thread()
def estimation_errors(
    words: Tensor,
    contexts: Tensor,
    noise: Noise,
    pairs: Tensor,
    samples: int = 5,
    draws: int = DRAWS,
    seed: int = 0,
    exact: bool = True,
) -> list[EstimationError]:
    """Of every estimator with so many samples, the full gradient first.

    `uniform` draws all words alike, the others from the noise. exact: where that can be; without it all are measured.

    Shapes: words (V, D), contexts (V, D), pairs (P, 2).
    """
    U = contexts.detach().cpu().double()
    chosen = [(words[i].detach().cpu().double(), j) for i, j in pairs.tolist()]
    squares = sum(float(exact_gradient(v, U, j).square().sum()) for v, j in chosen) or math.nan
    V = len(U)
    errors = [EstimationError("full", V, V, 0.0, 0.0, 0.0)]
    for name in ESTIMATORS:
        source = Noise.uniform(V) if name == "uniform" else noise.to(U.device)
        is_exact = exact and (name in INDEPENDENT or math.comb(V + samples - 1, samples) <= FEW_WAYS)
        if is_exact:
            exact_moments = independent if name in INDEPENDENT else enumerated
            moments = [exact_moments(name, v, U, j, source.probabilities, samples) for v, j in chosen]
        else:
            generator = torch.Generator().manual_seed(seed)
            moments = [measured(name, v, U, j, source, samples, draws, generator) for v, j in chosen]
        bias = sum(float(one.bias.square().sum()) for one in moments)
        variance = sum(one.variance for one in moments)
        # Noise lengthens a measured bias: its square by the variance of the mean of n draws, which is subtracted.
        noise_square = 0.0 if is_exact else variance / (draws - 1)
        errors.append(
            EstimationError(
                name,
                V if name in NEED_THE_NORMALISER else 1 + samples,
                samples if name == "uniform" else 1 + samples,
                *(math.sqrt(max(0.0, square) / squares) for square in (bias - noise_square, noise_square, variance)),
            )
        )
    return errors


def independent(name: str, v: Tensor, U: Tensor, j: int, q: Tensor, m: int) -> Moments:
    """Exactly, for one of INDEPENDENT: the estimate is c_j u_j and m words k drawn by q, each with its own c_k u_k.

    Shapes: v (D,), U (V, D), q (V,).
    """
    V, scores, log_q = len(U), U @ v, q.log()
    # A row for each word, as if all m samples were that word: its weight is c_k.
    at_j = [value.expand(V) for value in (scores[j], log_q[j], scores.logsumexp(0))]
    hits = torch.arange(V) == j
    rows = [values[:, None].expand(V, m) for values in (scores, log_q, hits)]
    estimate = ESTIMATORS[name](SampledPairs(at_j[0], rows[0], at_j[1], rows[1], rows[2], at_j[2], V))
    c_j, c = estimate.context[0], estimate.samples[:, 0]
    # E[c_k u_k] = sum q_k c_k u_k
    term = (q * c) @ U
    # E e = c_j u_j + m E[c_k u_k]
    mean = c_j * U[j] + m * term
    # E|e - E e|^2 = m (sum q_k c_k^2 |u_k|^2 - |E[c_k u_k]|^2)
    variance = m * max(0.0, float((q * c**2) @ vector_norm(U, dim=1) ** 2 - term @ term))
    return Moments(mean, mean - exact_gradient(v, U, j), variance, variance + float(mean @ mean))


def exact_gradient(v: Tensor, U: Tensor, j: int) -> Tensor:
    """dl/dv = u_j - mu, (D,): without that by U, which would fill V rows."""
    return U[j] - torch.softmax(U @ v, 0) @ U


def table(errors: Sequence[EstimationError]) -> Table:
    """For the report."""
    return Table(
        title="Bias and deviation of the estimators",
        about="Errors of the estimates of a pair's gradient on this model, as a share of the exact one's length: "
        "bias is what remains on average over all samples, deviation how far single ones scatter. nce and negative "
        "optimise another objective than the softmax, and their bias is the distance of its gradient.",
        columns=[
            "estimator", "rows read a pair", "rows changed a pair", "relative bias", "known", "relative deviation",
        ],
        rows=[
            [one.estimator, one.rows_read, one.rows_changed, _bias(one),
             f"within {one.standard_error:.1g}" if one.standard_error else "exactly", _shown(one.deviation)]
            for one in errors
        ],
    )  # fmt: skip


def _bias(error: EstimationError) -> float | str:
    """One that was measured has no digits beyond the first of its standard error."""
    if not error.standard_error or not math.isfinite(error.bias):
        return _shown(error.bias)
    return f"{error.bias:.{max(0, -math.floor(math.log10(error.standard_error)))}f}"


def _shown(value: float) -> float | str:
    """Rounded to 9 decimals, without the rounding errors of 0."""
    return round(value, 9) if math.isfinite(value) else ""
