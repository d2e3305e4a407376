"""The layers on Heads that attend by softmax, built at one size: what holds for one of them holds for all."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from porism.layers import Attention, AutoAttention, WindowAttention
from porism.layers.attention.heads import Heads
from porism.layers.attention.method import Method
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.testing.gradients import relative_error

E, A, B, T, S = 12, 3, 2, 7, 5
PADDING = torch.arange(S) >= torch.tensor([[3], [5]])

KINDS: dict[str, Callable[..., Heads]] = {
    "softmax": lambda **options: Attention(E, A, **options),
    "window": lambda **options: WindowAttention(E, A, window_size=3, **options),
    "blocks": lambda **options: WindowAttention(E, A, pattern=Pattern("block", 3, is_causal=True), **options),
    "auto": lambda **options: AutoAttention(E, A, **options),
    "auto window": lambda **options: AutoAttention(E, A, pattern=Pattern("sliding", window_size=3), **options),
}
each_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


class Values(Heads):
    """The least that a kind of attention can do: each query gets the mean of all values."""

    class Mean(Method):
        name = "mean"
        exact = False

        def serves(self, sizes: RequestSizes) -> bool:
            return True

        def attend(self, request: AttentionRequest) -> Tensor:
            return request.v.mean(2, keepdim=True).expand(-1, -1, request.q.shape[2], -1)

        def work(self, sizes: RequestSizes) -> dict[str, float]:
            return {"flops": float(sizes.heads * sizes.S * sizes.H)}

        def trials(self, kind: str, device: str) -> list[RequestSizes]:
            return []

    method = Mean()


def assert_same(found: Tensor | None, wanted: Tensor | None, tolerance: float = 1e-12) -> None:
    assert found is not None
    assert wanted is not None
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) <= tolerance
