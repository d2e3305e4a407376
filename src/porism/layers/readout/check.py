"""What `porism check gradients` compares for this layer: the gradient by hand, and that of the CPU's kernel."""

from collections.abc import Iterator

import torch

from porism.layers.cases import GradientCase
from porism.layers.readout import naive
from porism.layers.readout.gradient import gradient
from porism.layers.readout.kernels import cpu

N, H, V = 7, 5, 9


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    h, weight, bias = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((N, H), (V, H), (V,)))
    targets = torch.randint(V, (N,), generator=draw)
    at = {"h": h, "weight": weight, "bias": bias}
    hand = gradient(h, weight, bias, targets)
    by_hand = {name: part for name, part in hand._asdict().items() if part is not None}
    yield GradientCase("loss", lambda h, weight, bias: naive.cross_entropy(h, weight, bias, targets), at, by_hand)
    done = cpu.forward(h, weight, bias, targets, None, 0.0, h.dtype, 4, [True] * 3)
    by_kernel = {"h": done.h, "weight": done.weight, "bias": done.bias}
    yield GradientCase(
        "loss on a CPU", lambda h, weight, bias: naive.cross_entropy(h, weight, bias, targets), at, by_kernel
    )
