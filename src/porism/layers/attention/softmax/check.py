"""What `porism check gradients` compares for this layer."""

from collections.abc import Iterator

import torch
from torch import Tensor

from porism.layers.attention.check_sizes import CheckSizes
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.softmax import naive
from porism.layers.attention.softmax.gradient import gradient
from porism.layers.cases import GradientCase

SIZES = CheckSizes(H=5)


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    yield _case(draw, "full", FULL)
    yield _case(draw, "causal", CAUSAL)
    yield _case(draw, "grouped", CAUSAL, SIZES._replace(T=5, S=5, A=6))
    yield _case(draw, "cross", FULL, SIZES._replace(T=3), scale=1.0)
    yield _case(draw, "sliding", Pattern("sliding", window_size=3, lookahead=1))
    # The first text has no key at all, and the first query of the second none that it may look at.
    padding = torch.tensor([[True] * 5, [True, False, False, True, False]])
    yield _case(draw, "padded", CAUSAL, SIZES._replace(T=5, S=5), padding=padding)


def _case(
    draw: torch.Generator,
    name: str,
    pattern: Pattern,
    sizes: CheckSizes = SIZES,
    scale: float | None = None,
    padding: Tensor | None = None,
) -> GradientCase:
    at, dO = sizes.draw(draw)
    mask = naive.looked_at(pattern, at["q"], at["k"], padding)

    def weighted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (naive.softmax_attention(q, k, v, mask, scale) * dO).sum()

    return GradientCase(name, weighted, at, gradient(dO, **at, mask=mask, scale=scale)._asdict())
