"""A warning where the series is too far from the softmax that it stands for."""

import warnings

import torch
from torch import Tensor


class SeriesWarning(UserWarning):
    """The series is far from the softmax that it stands for: logits are too large for its order."""


class Watch:
    """Says when the error of a layer is to be measured, and warns once if it passes a limit.

    The first call is measured, and then every `every`-th, until there was a warning. Nothing is measured where there
    are no numbers to look at, or where looking would change what happens: while a graph is compiled or captured, while
    operations are counted, and on tensors that only stand for others.
    """

    def __init__(self, limit: float, every: int = 100) -> None:
        self.limit = limit
        self.every = every
        self.calls = 0
        self.warned = False

    def is_due(self, q: Tensor) -> bool:
        """Whether this call is one to measure."""
        if self.warned or not _has_numbers(q):
            return False
        self.calls += 1
        return self.calls % self.every == 1 or self.every == 1

    def judge(self, error: float, order: int) -> None:
        """Warns where an error passes the limit."""
        if error <= self.limit:
            return
        self.warned = True
        warnings.warn(
            f"taylor: the series of order {order} is {error:.0%} away from softmax attention on these inputs, more "
            f"than {self.limit:.0%}: logits are too large for it. Use normalize=True, a smaller scale, "
            f"order={order + 2 - order % 2}, or HybridAttention.",
            SeriesWarning,
            stacklevel=2,
        )


def _has_numbers(q: Tensor) -> bool:
    if torch.compiler.is_compiling() or type(q) is not Tensor or q.is_meta:
        return False
    if torch._C._len_torch_dispatch_stack():  # something counts or fakes what is computed
        return False
    return not (q.is_cuda and torch.cuda.is_current_stream_capturing())
