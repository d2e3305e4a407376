"""The hybrid of order 2 on a GPU, causal: parallel over the length, forward and backward.

The sums over chunks of keys and their scan are those of the series. Then every tile of queries goes by itself: it reads
the last sums whose keys are all far from it, and takes the keys after those pair by pair, up to its own place.

>>> kernel_in_use(torch.randn(1, 8, 1000, 16))
'torch'
>>> kernel_in_use(torch.randn(1, 8, 1000, 16, device="cuda"))
'triton'
"""

from typing import TYPE_CHECKING

from torch import Tensor

from porism.layers.attention.taylor.kernels import triton as series

if TYPE_CHECKING:
    from porism.layers.attention.hybrid.gradient import HybridGradient
    from porism.layers.attention.hybrid.kernels.cpu import Passed
    from porism.layers.attention.hybrid.kernels.spans import HybridSettings


def kernel_in_use(q: Tensor, H: int = 64, order: int = 2) -> str:
    """Which code answers causal queries like these (B, A, T, D), with values of width H: "triton", or "torch"."""
    return series.kernel_in_use(q, H, order)


def serves(settings: "HybridSettings", q: Tensor, k: Tensor, v: Tensor, first: Tensor | None) -> bool:
    """Whether there are kernels for this pass. Full patterns, offsets, and states that come or go are torch's.

    So is a scale of 0 or less, with which the largest logit is not that of the largest product.
    """
    T, (*_, S, H) = q.shape[2], v.shape
    has_pattern = settings.causal and settings.offset == 0 and T == S and settings.scale > 0
    alone = first is None and not settings.return_state
    return has_pattern and alone and min(q.numel(), v.numel()) > 0 and kernel_in_use(q, H, settings.order) == "triton"


def forward(settings: "HybridSettings", q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None) -> "Passed":
    """The answer, the sums of weights and their peaks: see `forward` of kernels/cpu.py."""
    from porism.layers.attention.hybrid.kernels.triton import launches as passes

    return passes.forward(settings, q, k, v, key_padding)


def backward(
    settings: "HybridSettings",
    dO: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    passed: "Passed",
) -> "HybridGradient":
    """What reaches the operands: see `gradient` of hybrid/gradient.py."""
    from porism.layers.attention.hybrid.kernels.triton import launches as passes

    return passes.backward(settings, dO, q, k, v, key_padding, passed)
