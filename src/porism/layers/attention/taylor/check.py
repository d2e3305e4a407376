"""What `porism check` compares for this layer: gradients by hand, and kernels."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from porism.layers.attention.check_sizes import CheckSizes
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor import naive
from porism.layers.attention.taylor.feature_maps import choose_map
from porism.layers.attention.taylor.functional import taylor_attention
from porism.layers.attention.taylor.gradient import gradient
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings, forward
from porism.layers.cases import GradientCase, KernelCase

SIZES = CheckSizes()
SCALE = 0.5


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    for order in (2, 4):
        yield _case(draw, f"full, order {order}", FULL, order, map="exact")
        yield _case(draw, f"causal, order {order}", CAUSAL, order, map="exact")
    yield _case(draw, "rolled", CAUSAL, map="rolled")
    yield _case(draw, "ordered", CAUSAL, map="ordered")
    yield _case(draw, "diagonal", CAUSAL, map="diagonal")
    yield _case(draw, "block-causal", Pattern("block-causal", window_size=2))
    yield _case(draw, "grouped", CAUSAL, sizes=CheckSizes(5, 5, A=4))
    yield _case(draw, "cross", FULL, sizes=CheckSizes(3, 7))
    # The first text has no key at all, and the first query of the second none that it may look at.
    padding = torch.tensor([[True] * 7, [True, False, False, True, False, False, True]])
    yield _case(draw, "padded", CAUSAL, padding=padding)
    yield _case(draw, "decay", CAUSAL, sizes=CheckSizes(5, 5, A=4), has_decay=True)
    yield _case(draw, "decay, padded", CAUSAL, padding=padding, has_decay=True)


def _case(
    draw: torch.Generator,
    name: str,
    pattern: Pattern,
    order: int = 2,
    map: str | None = None,
    sizes: CheckSizes = SIZES,
    padding: Tensor | None = None,
    has_decay: bool = False,
) -> GradientCase:
    at, dz = sizes.draw(draw)
    if has_decay:
        steps = -torch.rand(at["k"].shape[:3], generator=draw, dtype=dz.dtype)
        at["log_decay"] = steps if padding is None else steps.masked_fill(padding[:, None], 0)
    options: dict[str, Any] = {
        "order": order,
        "feature_map": map,
        "pattern": pattern,
        "scale": SCALE,
        "key_padding_mask": padding,
    }

    def weighted(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None = None) -> Tensor:
        return (naive.taylor_attention(q, k, v, **options, log_decay=log_decay) * dz).sum()

    settings = SeriesSettings(choose_map(map, order), order, pattern, SCALE)
    answer, totals, _ = forward(settings, **at, key_padding=padding)
    given: dict[str, Any] = {"log_decay": None, **at}
    hand = gradient(settings, dz, None, **given, key_padding=padding, first=None, answer=answer, totals=totals)
    by_name = hand._asdict()
    if padding is not None and has_decay:
        # A step that a pad does not make has no gradient.
        by_name["log_decay"] = hand.log_decay.masked_fill(padding[:, None], 0)
    return GradientCase(name, weighted, at, {part: by_name[part] for part in at})


def kernel_cases(seed: int) -> Iterator[KernelCase]:
    draw = torch.Generator().manual_seed(seed)
    for name, pattern in (("causal", CAUSAL), ("full", FULL)):
        sizes = {"q": (1, 2, 65, 8), "k": (1, 1, 65, 8), "v": (1, 1, 65, 7)}
        at = {part: torch.randn(size, generator=draw) for part, size in sizes.items()}
        options: dict[str, Any] = {"pattern": pattern, "scale": SCALE}
        yield KernelCase(
            name, partial(taylor_attention, **options), partial(naive.taylor_attention, order=2, **options), at
        )
