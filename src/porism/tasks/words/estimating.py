"""What sampling costs: how far each estimate of a trained model's gradient is off, and how many rows it reads.

>>> table(estimation_errors(words, contexts, noise, pairs, samples=5))       # doctest: +SKIP

Of dl/dv, over some pairs: with the exact gradient g and an estimate e,

    relative bias = sqrt(sum |E e - g|^2 / sum |g|^2)        relative deviation = sqrt(sum E|e - E e|^2 / sum |g|^2)

Both are exact where all ways to draw can be gone through, and where samples count independently of each other, however
many words there are. Elsewhere they are measured, with the standard error of the bias beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER, Sample
from porism.layers.skipgram.moments import Moments, enumerated, measured
from porism.layers.skipgram.noise import Noise
from porism.runs.exhibits import Table

FEW_WAYS = 10**4
"""Ways to draw that are gone through for each of many pairs."""

INDEPENDENT = ("uniform", "importance", "nce", "negative")
"""In these a sample counts the same whatever the others are, so that one word at a time tells all."""

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
    found = [EstimationError("full", V, V, 0.0, 0.0, 0.0)]
    for name in ESTIMATORS:
        source = Noise.uniform(V) if name == "uniform" else noise.to(U.device)
        is_exact = exact and (name in INDEPENDENT or math.comb(V + samples - 1, samples) <= FEW_WAYS)
        if is_exact:
            way = independent if name in INDEPENDENT else enumerated
            moments = [way(name, v, U, j, source.probabilities, samples) for v, j in chosen]
        else:
            draw = torch.Generator().manual_seed(seed)
            moments = [measured(name, v, U, j, source, samples, draws, draw) for v, j in chosen]
        bias = sum(float(one.bias.square().sum()) for one in moments)
        variance = sum(one.variance for one in moments)
        # A measured bias is longer by chance: its square by the variance of the mean of n draws, which is taken off.
        chance = 0.0 if is_exact else variance / (draws - 1)
        found.append(
            EstimationError(
                name,
                V if name in NEED_THE_NORMALISER else 1 + samples,
                samples if name == "uniform" else 1 + samples,
                *(math.sqrt(max(0.0, square) / squares) for square in (bias - chance, chance, variance)),
            )
        )
    return found


def independent(name: str, v: Tensor, U: Tensor, j: int, q: Tensor, m: int) -> Moments:
    """Exactly, for one of INDEPENDENT: the estimate is c_j u_j and m words k drawn by q, each with its own c_k u_k.

    Shapes: v (D,), U (V, D), q (V,).
    """
    V, scores, log_q = len(U), U @ v, q.log()
    # A row for each word, as if all m samples were that word: what it counts once is c_k.
    at_j = [value.expand(V) for value in (scores[j], log_q[j], scores.logsumexp(0))]
    hits = torch.arange(V) == j
    rows = [values[:, None].expand(V, m) for values in (scores, log_q, hits)]
    found = ESTIMATORS[name](Sample(at_j[0], rows[0], at_j[1], rows[1], rows[2], at_j[2], V))
    c_j, c = found.context[0], found.samples[:, 0]
    # E[c_k u_k] = sum q_k c_k u_k
    term = (q * c) @ U
    # E e = c_j u_j + m E[c_k u_k]
    mean = c_j * U[j] + m * term
    # E|e - E e|^2 = m (sum q_k c_k^2 |u_k|^2 - |E[c_k u_k]|^2)
    variance = m * max(0.0, float((q * c**2) @ torch.linalg.vector_norm(U, dim=1) ** 2 - term @ term))
    return Moments(mean, mean - exact_gradient(v, U, j), variance, variance + float(mean @ mean))


def exact_gradient(v: Tensor, U: Tensor, j: int) -> Tensor:
    """dl/dv = u_j - mu, (D,): without that by U, which would fill V rows."""
    return U[j] - torch.softmax(U @ v, 0) @ U


def table(errors: Sequence[EstimationError]) -> Table:
    """For the report."""
    return Table(
        title="What sampling costs",
        about="How far estimates of a pair's gradient are off on this model, as a share of the exact one's length: "
        "bias is what remains on average over all samples, deviation how far single ones scatter. nce and negative "
        "pursue another aim than the softmax, and their bias says how far it lies from it.",
        columns=[
            "estimator", "rows read a pair", "rows changed a pair", "relative bias", "known", "relative deviation",
        ],
        rows=[
            [one.estimator, one.rows_read, one.rows_changed, _shown(one.bias),
             f"within {one.standard_error:.1g}" if one.standard_error else "exactly", _shown(one.deviation)]
            for one in errors
        ],
    )  # fmt: skip


def _shown(value: float) -> float | str:
    """Without what rounding makes of 0."""
    return round(value, 9) if math.isfinite(value) else ""
