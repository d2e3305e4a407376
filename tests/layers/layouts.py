"""The layouts in which an operand may lie in memory. Each is a differentiable function of a contiguous tensor."""

from collections.abc import Callable

import torch
from torch import Tensor

Layout = Callable[[Tensor], Tensor]


def _sliced(x: Tensor) -> Tensor:
    """The middle of a larger tensor."""
    return torch.nn.functional.pad(x, (1, 2) * x.dim())[tuple(slice(1, 1 + size) for size in x.shape)]


def _permuted(x: Tensor) -> Tensor:
    """The first dimension is the one dense in memory, the last has the largest stride."""
    backwards = tuple(reversed(range(x.dim())))
    return x.permute(backwards).contiguous().permute(backwards)


def _negated(x: Tensor) -> Tensor:
    """A view whose memory holds -x: the imaginary part of a conjugate."""
    return torch.complex(torch.zeros_like(x), -x).conj().imag


LAYOUTS: dict[str, Layout] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT if x.dim() > 1 else x,
    "permuted": _permuted,
    "stepped": lambda x: torch.stack([x, -x], -1)[..., 0],
    "stepped in length": lambda x: torch.stack([x, -x], 1).flatten(0, 1)[::2],
    "sliced": _sliced,
    "expanded": lambda x: x[:1].expand(x.shape),
    "expanded along the width": lambda x: x[..., :1].expand(x.shape),
    "flipped": lambda x: x.flip(-1),
    "negated": _negated,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x,
}
"""Where one has too few dimensions for a layout, it stays contiguous."""
