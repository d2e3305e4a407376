"""What a net says of a node nobody labelled should not hang on which features dropout happened to leave.

Several copies of the net, each with dropout of its own, are drawn towards what they say together, made more certain:

    p = mean over copies of softmax(logits),   q ~ p^(1 / temperature),   loss += mean of |softmax(logits) - q|^2

Feng and others, Graph Random Neural Networks, 2020.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def disagreement(copies: Sequence[Tensor], temperature: float) -> Tensor:
    """The mean squared distance of each copy's probabilities from the sharpened mean. Each copy (N, V), logits.

    >>> disagreement([torch.tensor([[9.0, 0.0]]), torch.tensor([[9.0, 0.0]])], temperature=0.5) < 1e-6
    tensor(True)

    No gradient goes into the mean: copies move towards it, not it towards them.
    """
    said = torch.stack([logits.softmax(1) for logits in copies])  # copies N V
    together = said.detach().mean(0).pow(1 / temperature)
    wanted = together / together.sum(1, keepdim=True)
    return (said - wanted).square().sum(2).mean()
