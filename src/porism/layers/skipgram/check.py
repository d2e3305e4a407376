"""What `porism check gradients` compares for this layer."""

from collections.abc import Iterator

import torch
from torch import Tensor

from porism.layers.cases import GradientCase
from porism.layers.skipgram import naive
from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER, estimate
from porism.layers.skipgram.gradient import gathered, gradient, sampled_gradient

B, D, V, SAMPLES = 3, 5, 7, 4


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    v, U = (torch.randn(size, D, generator=draw, dtype=torch.float64) for size in (B, V))
    j = torch.randint(V, (B,), generator=draw)
    k = torch.randint(V, (B, SAMPLES), generator=draw)
    # A sample that is the context itself goes another way through some estimators.
    k[0, 1] = j[0]
    q = torch.rand(V, generator=draw, dtype=torch.float64)
    q /= q.sum()
    at = {"v": v, "U": U}
    yield GradientCase("full", lambda v, U: naive.loss(v, U, j), at, gradient(v, U, j)._asdict())
    for name in ESTIMATORS:
        yield _sampled(name, at, j, k, q)


def _sampled(name: str, at: dict[str, Tensor], j: Tensor, k: Tensor, q: Tensor) -> GradientCase:
    p = torch.softmax(at["v"] @ at["U"].mT, 1)

    def loss(v: Tensor, U: Tensor) -> Tensor:
        if name in NEED_THE_NORMALISER:
            return naive.given_p(name, v, U, j, k, q, p)
        return naive.sampled_loss(name, v, U, j, k, q)

    hand = sampled_gradient(estimate(name, at["v"], at["U"], j, k, q), at["v"], at["U"], j, k)
    return GradientCase(name, loss, at, {"v": hand.v, "U": gathered(hand, at["U"])})
