"""The loss of negative sampling on text that was held out: how well contexts are told from words that are drawn.

    loss = mean over pairs of  -log sigma(u_j . v_i) - sum over negatives of log sigma(-u_k . v_i)

Vectors of zeros, which know nothing, have (1 + negatives) log 2. The negatives hang on a seed alone, so that two models
of the same words are asked the same questions.
"""

import math

import torch
from torch import Tensor

from porism.layers.skipgram import sampled_loss
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

    >>> nothing = torch.zeros(9, 5)
    >>> measure(nothing, nothing, torch.tensor([[0, 3], [8, 1]]), Noise.uniform(9), negatives=5)     # 6 log 2
    {'loss': 4.158883094787598}

    Shapes: words (V, D), contexts (V, D), pairs (P, 2).
    """
    if not len(pairs):
        return {LOSS: math.nan}
    draw = torch.Generator().manual_seed(seed)
    on_cpu, here = noise.to(torch.device("cpu")), noise.to(words.device)
    total = 0.0
    for block in pairs.split(BLOCK):
        # Drawn on the CPU: the same on every device.
        samples = on_cpu.draw((len(block), negatives), draw).to(words.device)
        i, j = block.to(words.device).T
        total += float(sampled_loss(words[i], contexts, j, samples, here.probabilities, "negative", "sum"))
    return {LOSS: total / len(pairs)}
