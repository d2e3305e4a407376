"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from porism.layers.attention.check_sizes import CheckSizes
from porism.layers.attention.hybrid import naive
from porism.layers.attention.hybrid.functional import hybrid_attention
from porism.layers.attention.hybrid.gradient import gradient
from porism.layers.attention.hybrid.kernels.cpu import forward
from porism.layers.attention.hybrid.kernels.spans import LENGTH, HybridSettings
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.cases import GradientCase, KernelCase

SIZES = CheckSizes()
SCALE = 0.5


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    for order in (2, 4):
        yield _case(draw, f"full, order {order}", order, causal=False)
        yield _case(draw, f"causal, order {order}", order)
    yield _case(draw, "window of 1", window=1)
    yield _case(draw, "nothing far", window=7)
    yield _case(draw, "grouped", sizes=CheckSizes(5, 5, A=4))
    yield _case(draw, "cross", causal=False, sizes=CheckSizes(3, 7))
    # All keys lie far before every query, so that they are read out of sums.
    yield _case(draw, "sums only", sizes=CheckSizes(3, 5), offset=LENGTH)
    # The first text has no key at all, and the first query of the second none that it may look at.
    padding = torch.tensor([[True] * 7, [True, False, False, True, False, False, True]])
    yield _case(draw, "padded", padding=padding)


def _case(
    draw: torch.Generator,
    name: str,
    order: int = 2,
    window: int = 3,
    causal: bool = True,
    sizes: CheckSizes = SIZES,
    offset: int = 0,
    padding: Tensor | None = None,
) -> GradientCase:
    at, dO = sizes.draw(draw)

    def weighted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pattern = CAUSAL if causal else FULL
        answer = naive.hybrid_attention(
            q,
            k,
            v,
            window_size=window,
            order=order,
            pattern=pattern,
            scale=SCALE,
            key_padding_mask=padding,
            offset=offset,
        )
        return (answer * dO).sum()

    settings = HybridSettings(window, order, causal, SCALE, offset)
    operands = at["q"], at["k"], at["v"], padding, None
    passed, _ = forward(settings, *operands)
    hand = gradient(settings, dO, None, *operands, passed)
    return GradientCase(name, weighted, at, {"q": hand.q, "k": hand.k, "v": hand.v})


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    for window in (5, 33):
        sizes = {"q": (1, 2, 65, 8), "k": (1, 1, 65, 8), "v": (1, 1, 65, 7)}
        at = {part: torch.randn(size, generator=draw) for part, size in sizes.items()}
        options: dict[str, Any] = {"window_size": window, "pattern": CAUSAL, "scale": SCALE}
        yield KernelCase(
            f"window of {window}", partial(hybrid_attention, **options), partial(naive.hybrid_attention, **options), at
        )
