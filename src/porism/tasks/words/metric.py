"""The loss of negative sampling and the cross-entropy of the softmax on held-out text.

    loss = mean over pairs of  -log sigma(u_j . v_i) - sum over negatives of log sigma(-u_k . v_i)

Vectors of zeros, at chance, have (1 + negatives) log 2. The negatives depend on a seed alone, so that two models of the
same words are measured on the same samples.
"""

import math

import torch
from torch import Tensor

from porism.layers.skipgram import SkipGram, sampled_loss
from porism.layers.skipgram.noise import Noise

LOSS = "loss"
SEED = 0
"""Of the negatives, for every model and every epoch."""

BLOCK = 8192
"""Pairs at once."""


@torch.no_grad()
def measure(
    words: Tensor, contexts: Tensor, pairs: Tensor, noise: Noise, negatives: int, seed: int = SEED
) -> dict[str, float]:
    """The metrics of a model on pairs of a word and a context; not a number where there are none.

    >>> zeros = torch.zeros(9, 5)
    >>> measure(zeros, zeros, torch.tensor([[0, 3], [8, 1]]), Noise.uniform(9), negatives=5)     # 6 log 2
    {'loss': 4.158883094787598}

    Shapes: words (V, D), contexts (V, D), pairs (P, 2).
    """
    if not len(pairs):
        return {LOSS: math.nan}
    generator = torch.Generator().manual_seed(seed)
    on_cpu, here = noise.to(torch.device("cpu")), noise.to(words.device)
    total = 0.0
    for block in pairs.split(BLOCK):
        # Drawn on the CPU: the same on every device.
        samples = on_cpu.draw((len(block), negatives), generator).to(words.device)
        i, j = block.to(words.device).T
        total += float(sampled_loss(words[i], contexts, j, samples, here.probabilities, "negative", "sum"))
    return {LOSS: total / len(pairs)}


SCORES_AT_ONCE = 2**24
"""Scores of words that are held together: 64 MiB."""


def cross_entropy(model: SkipGram, pairs: Tensor) -> float:
    """Mean over pairs of -log p(j | i), in nats: log V for a uniform prediction."""
    return float(pair_losses(model, pairs).mean())


@torch.no_grad()
def pair_losses(model: SkipGram, pairs: Tensor) -> Tensor:
    """-log p(j | i) of each pair, in nats.

    Softmax models and nce predict p(j | i) = exp(s_j) / Z. The optimum of negative sampling is
    s_j = log(p(j | i) / q_j) - log m, with q the noise and m negatives, so that it predicts
    p(j | i) = q_j exp(s_j) / Z. One number for all estimators, whatever their own loss is.

    Shapes: pairs (P, 2) -> (P,) in float64.
    """
    device = model.weight.device
    shift = torch.zeros(model.num_embeddings, device=device)
    if model.estimator == "negative":
        shift = model.noise.probabilities.log().to(device, shift.dtype)
    i, j = pairs.to(device).T
    # Scores and Z are those of a word: one row for all pairs that have it.
    words, row = i.unique(return_inverse=True)
    losses = torch.empty(len(pairs), dtype=torch.float64, device=device)
    first = 0
    for block in words.split(max(1, SCORES_AT_ONCE // model.num_embeddings)):
        # (U, D) (D, V) -> (U, V)
        scores = (model.weight[block] @ model.context_weight.mT).add_(shift)
        chosen = ((row >= first) & (row < first + len(block))).nonzero().squeeze(1)
        at = row[chosen] - first
        losses[chosen] = (scores.logsumexp(1)[at] - scores[at, j[chosen]]).double()
        first += len(block)
    return losses
