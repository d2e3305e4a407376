"""The gradient of a pair's log-likelihood from a few sampled words, each estimator under its name.

l = s_j - log Z with s_k = u_k . v and Z = sum exp(s_k). Exactly, dl/dv = sum (y_k - p_k) u_k and dl/du_k =
(y_k - p_k) v. Every estimator puts numbers c in place of y - p, one for the context j, one for each of m samples:

    dl/dv ~ c_j u_j + sum c_k u_k        dl/du_j ~ c_j v        dl/du_k ~ c_k v

The README derives them, with the bias and the variance of each.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus


class SampledPairs(NamedTuple):
    """What is known of B pairs: scores and logarithms of the noise's probabilities, at the context and at m samples."""

    score: Tensor  # (B,)   s_j
    scores: Tensor  # (B, m) s_k
    log_q: Tensor  # (B,)
    log_qs: Tensor  # (B, m)
    hits: Tensor  # (B, m) where a sample is the context itself
    log_normaliser: Tensor | None  # (B,)   log Z, where the estimator needs it
    vocabulary: int

    @property
    def m(self) -> int:
        return self.scores.shape[1]

    @property
    def log_p(self) -> Tensor:
        """Of the samples, (B, m)."""
        assert self.log_normaliser is not None, "only the estimators of NEED_THE_NORMALISER ask, and they are given it"
        return self.scores - self.log_normaliser[:, None]

    @property
    def exact_losses(self) -> Tensor:
        """-l, (B,)."""
        assert self.log_normaliser is not None, "only the estimators of NEED_THE_NORMALISER ask, and they are given it"
        return self.log_normaliser - self.score


class Estimate(NamedTuple):
    """The losses (B,), c_j (B,) and c_k (B, m)."""

    losses: Tensor
    context: Tensor
    samples: Tensor


def uniform(sample: SampledPairs) -> Estimate:
    """All of y - p from words drawn alike: c_k = (V / m) (y_k - p_k). Unbiased, and its variance grows like V."""
    scale = sample.vocabulary / sample.m
    return Estimate(
        sample.exact_losses,
        torch.zeros_like(sample.score),
        scale * (sample.hits.to(sample.scores.dtype) - sample.log_p.exp()),
    )


def importance(sample: SampledPairs) -> Estimate:
    """u_j exactly, and mu from words drawn by q: c_j = 1, c_k = -p_k / (m q_k). Unbiased.

    With a uniform q this is the uniform estimator that keeps u_j.
    """
    weights = (sample.log_p - sample.log_qs).exp() / sample.m
    return Estimate(sample.exact_losses, torch.ones_like(sample.score), -weights)


def self_normalised(sample: SampledPairs) -> Estimate:
    """Importance with Z from the samples too: c_k = -w_k / sum w, w_k = exp(s_k) / q_k. Biased like 1 / m."""
    logits = sample.scores - sample.log_qs - math.log(sample.m)
    return Estimate(logits.logsumexp(1) - sample.score, torch.ones_like(sample.score), -torch.softmax(logits, 1))


def sampled_softmax(sample: SampledPairs) -> Estimate:
    """A softmax over the context and the samples, whose scores are lowered by log(m q_k). Biased like 1 / m.

    The context has its own place, so a sample that hits it is left out: then Z is estimated without bias.
    """
    corrected = sample.scores - sample.log_qs - math.log(sample.m)
    logits = torch.cat([sample.score[:, None], corrected.masked_fill(sample.hits, -math.inf)], 1)
    p = torch.softmax(logits, 1)
    return Estimate(logits.logsumexp(1) - sample.score, 1 - p[:, 0], -p[:, 1:])


def nce(sample: SampledPairs) -> Estimate:
    """Is it the context or noise? Scores stand for log p itself: its optimum has Z = 1. Not unbiased."""
    log_m = math.log(sample.m)
    return _discriminated(sample.score - sample.log_q - log_m, sample.scores - sample.log_qs - log_m)


def negative(sample: SampledPairs) -> Estimate:
    """The same question with scores as they are. Its optimum is another: log(P(i, j) / (P(i) q_j)) - log m."""
    return _discriminated(sample.score, sample.scores)


def _discriminated(score: Tensor, scores: Tensor) -> Estimate:
    """log sigma(s_j) + sum log sigma(-s_k), with c_j = 1 - sigma(s_j) and c_k = -sigma(s_k)."""
    return Estimate(softplus(-score) + softplus(scores).sum(1), torch.sigmoid(-score), -torch.sigmoid(scores))


ESTIMATORS: dict[str, Callable[[SampledPairs], Estimate]] = {
    "uniform": uniform,
    "importance": importance,
    "self-normalised": self_normalised,
    "sampled-softmax": sampled_softmax,
    "nce": nce,
    "negative": negative,
}
NEED_THE_NORMALISER = ("uniform", "importance")
"""These know p, which takes the scores of all V words."""


def at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def scored_pairs(v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor, name: str) -> SampledPairs:
    """What an estimator needs to know of pairs v (B, D), j (B,) and samples k (B, m): U (V, D), q (V,).

    In float32 for vectors of lower precision: 1 - p of a context that is well predicted would be 0 in theirs.
    """
    rows = torch.cat([j[:, None], k], 1)
    v = at_least_float32(v)
    # (B, 1 + m, D) (B, D, 1) -> (B, 1 + m)
    scores = torch.bmm(at_least_float32(U[rows]), v[:, :, None]).squeeze(2)
    log_q = at_least_float32(q[rows]).log().to(v.dtype)
    log_normaliser = (v @ at_least_float32(U).mT).logsumexp(1) if name in NEED_THE_NORMALISER else None
    return SampledPairs(scores[:, 0], scores[:, 1:], log_q[:, 0], log_q[:, 1:], k == j[:, None], log_normaliser, len(U))


def estimate(name: str, v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor) -> Estimate:
    """One of ESTIMATORS at B pairs.

    >>> v, U = torch.randn(2, 5), torch.randn(9, 5)
    >>> j, k = torch.tensor([3, 4]), torch.randint(9, (2, 7))
    >>> estimate("importance", v, U, j, k, torch.full((9,), 1 / 9)).samples.shape
    torch.Size([2, 7])
    """
    return ESTIMATORS[name](scored_pairs(v, U, j, k, q, name))
