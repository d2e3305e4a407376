"""How likely a model holds the contexts that words really have, over the whole vocabulary."""

import math

import torch
from torch import Tensor

from porism.layers.skipgram import SkipGram

SCORES_AT_ONCE = 2**24
"""Scores of words that are held together: 64 MiB."""


@torch.no_grad()
def cross_entropy(model: SkipGram, pairs: Tensor) -> float:
    """Mean over pairs of -log p(j | i), in nats: below log V a model knows something.

    Softmax models and nce say p(j | i) = exp(s_j) / Z. The optimum of negative sampling is s_j = log(p(j | i) / q_j) -
    log m, with q the noise and m negatives, so what it says is p(j | i) = q_j exp(s_j) / Z. One number for all
    estimators, whatever their own loss is.

    Shapes: pairs (P, 2).
    """
    device = model.words.device
    shift = torch.zeros(model.vocabulary, device=device)
    if model.estimator == "negative":
        shift = model.noise.probabilities.log().to(device, shift.dtype)
    total = 0.0
    for block in pairs.split(max(1, SCORES_AT_ONCE // model.vocabulary)):
        i, j = block.to(device).T
        # (P, D) (D, V) -> (P, V)
        scores = model.words[i] @ model.contexts.mT + shift
        total += float((scores.logsumexp(1) - scores.gather(1, j[:, None]).squeeze(1)).double().sum())
    return total / len(pairs) if len(pairs) else math.nan
