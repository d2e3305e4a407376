"""A word and its context among random vectors: what the forms of this topic are shown, and what autograd says."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.skipgram import naive

SIZES = ((7, 3), (2, 5), (5, 5))
"""Words and width, V and D."""


class Pair(NamedTuple):
    """Word i with context j. Vectors are columns, as the source has them: words and U are (D, V)."""

    words: Tensor
    U: Tensor
    i: int
    j: int

    @property
    def v(self) -> Tensor:
        return self.words[:, self.i]

    @property
    def u_j(self) -> Tensor:
        return self.U[:, self.j]

    @property
    def y(self) -> Tensor:
        """1 at the context, 0 elsewhere, (V,)."""
        return torch.nn.functional.one_hot(torch.tensor(self.j), self.U.shape[1]).to(self.U.dtype)

    @property
    def yhat(self) -> Tensor:
        """The probabilities of all contexts, (V,)."""
        return torch.softmax(self.U.T @ self.v, 0)


def random_pair(V: int, D: int) -> Pair:
    draw = torch.Generator().manual_seed(V * D)
    words, U = (torch.randn(D, V, generator=draw, dtype=torch.float64) for _ in range(2))
    return Pair(words, U, i=V // 2, j=min(1, V - 1))


class Derivatives(NamedTuple):
    """l, and its derivatives by the vectors of all words and of all contexts, both (D, V)."""

    likelihood: Tensor
    words: Tensor
    U: Tensor


@cache
def by_autograd(V: int, D: int) -> Derivatives:
    """Of a random pair, through the layer's oracle."""
    pair = random_pair(V, D)
    words, U = (part.clone().requires_grad_() for part in (pair.words, pair.U))
    likelihood = naive.log_likelihood(words[:, pair.i], U.T, pair.j)
    likelihood.backward()
    assert words.grad is not None
    assert U.grad is not None
    return Derivatives(likelihood.detach(), words.grad, U.grad)
