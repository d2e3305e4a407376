"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from porism.layers.attention.check_sizes import CheckSizes
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window import naive
from porism.layers.attention.window.functional import window_attention
from porism.layers.attention.window.gradient import gradient
from porism.layers.attention.window.kernels.blocks import ROWS
from porism.layers.cases import GradientCase, KernelCase

ONE = CheckSizes(A=1, G=1, B=1, D=2, H=3)
LONG = ROWS + 3
"""A whole block of queries, and some left over."""


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    yield _case(draw, "sliding", Pattern("sliding", window_size=5), ONE._replace(T=LONG, S=LONG))
    yield _case(draw, "ahead", Pattern("sliding", window_size=2, lookahead=3), ONE._replace(T=LONG, S=LONG))
    yield _case(draw, "dilated", Pattern("sliding", window_size=3, lookahead=1, dilation=2), ONE)
    yield _case(draw, "block", Pattern("block", window_size=5), ONE._replace(T=12, S=12))
    yield _case(draw, "causal_inside", Pattern("block", window_size=5, is_causal=True), ONE._replace(T=12, S=12))
    yield _case(draw, "grouped", Pattern("sliding", window_size=3), ONE._replace(B=2, A=4, G=2))
    # The first text has no key at all, and the first query of the second none that it may look at.
    padding = torch.tensor([[True] * 7, [True, False, False, True, True, True, False]])
    yield _case(draw, "padded", Pattern("sliding", window_size=2), ONE._replace(B=2), padding=padding)
    # Queries that continue a text, from inside of a block on, and keys that end before they do.
    yield _case(draw, "cross", Pattern("block", window_size=3), ONE._replace(S=5), offset=1)


def _case(
    draw: torch.Generator,
    name: str,
    pattern: Pattern,
    sizes: CheckSizes,
    padding: Tensor | None = None,
    offset: int = 0,
) -> GradientCase:
    at, dO = sizes.draw(draw)

    def weighted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (naive.window_attention(q, k, v, pattern, scale=0.7, key_padding_mask=padding, offset=offset) * dO).sum()

    hand = gradient(dO, at["q"], at["k"], at["v"], pattern, 0.7, padding, offset)
    return GradientCase(name, weighted, at, hand._asdict())


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    for name, pattern in (("sliding", Pattern("sliding", window_size=5)), ("block", Pattern("block", window_size=33))):
        sizes = {"q": (1, 2, 65, 8), "k": (1, 1, 65, 8), "v": (1, 1, 65, 8)}
        at = {part: torch.randn(size, generator=draw) for part, size in sizes.items()}
        yield KernelCase(
            name, partial(window_attention, pattern=pattern), partial(naive.window_attention, pattern=pattern), at
        )
