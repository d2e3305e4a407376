"""The oracle: loops over the equations of the README, clear and slow. Row vectors throughout."""

from typing import NamedTuple

import torch
from torch import Tensor

ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}


class LanguageModelWeights(NamedTuple):
    """Everything the language model learns, and the state it starts from. Its gradient has the same fields."""

    L: Tensor  # V D
    I: Tensor  # D H  # noqa: E741 - the letter of the equations
    H: Tensor  # H H
    U: Tensor  # H V
    b1: Tensor  # H
    b2: Tensor  # V
    h0: Tensor  # B H


def elman(x: Tensor, h: Tensor, I: Tensor, H: Tensor, b: Tensor, nonlinearity: str = "sigmoid") -> Tensor:  # noqa: E741
    """h[t] = act(x[t] I + h[t-1] H + b): x (T, B, D), h (B, H), I (D, H), H (H, H), b (H) -> (T, B, H)."""
    states = []
    for x_t in x:
        h = ACTIVATIONS[nonlinearity](x_t @ I + h @ H + b)
        states.append(h)
    return torch.stack(states)


def language_model(weights: LanguageModelWeights, x: Tensor, y: Tensor) -> Tensor:
    """J, the sum of the cross-entropies E[t] of predicting the words y from the words x, both (T, B)."""
    h = weights.h0
    J = torch.zeros((), dtype=h.dtype)
    for x_t, y_t in zip(x, y, strict=True):
        e = weights.L[x_t]
        h = torch.sigmoid(h @ weights.H + e @ weights.I + weights.b1)
        yhat = torch.softmax(h @ weights.U + weights.b2, dim=-1)
        for word_probabilities, word in zip(yhat, y_t, strict=True):
            J = J - torch.log(word_probabilities[word])
    return J
