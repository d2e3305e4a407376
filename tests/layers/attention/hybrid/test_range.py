"""Logits of any size: no sum of weights vanishes or overflows, and what is lost is told and never 0."""

from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from porism.layers.attention.hybrid import HybridState, hybrid_attention, hybrid_decode, naive
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern

LEVELS = [-500.0, -300.0, -104.0, -3.0, 0.0, 3.0, 104.0, 500.0]
each_pattern = pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)
# In float32 a logit of 500 is off by 3e-5, and so is its weight.
each_dtype = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)], ids=str)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(level: float, T: int = 9, B: int = 2, A: int = 2, G: int = 1) -> list[Any]:
    """Queries, keys and values; the products of queries and keys lie around a level."""
    q, k, v = (torch.randn(size, dtype=torch.float64) for size in ((B, A, T, 2), (B, G, T, 2), (B, G, T, 3)))
    q[..., 0], k[..., 0] = level / 8, 8.0
    # Rounded, so that float32 has the same numbers.
    return [x.float().double().requires_grad_() for x in (q, k, v)]


def softmax(operands: list[Any], pattern: Pattern) -> Tensor:
    q, k, v = operands
    seen = pattern.mask(q.shape[2], k.shape[2])
    return scaled_dot_product_attention(q, k, v, seen, scale=1.0, enable_gqa=True)


def assert_close(found: Tensor, wanted: Tensor, given: list[Any], exact: list[Any], tolerance: float) -> None:
    errors = attention_errors(found, wanted, given, exact)
    assert all(error <= tolerance for error in errors), errors


def test_the_only_key_has_all_the_weight_however_low_its_logit() -> None:
    q, v = torch.full((1, 1, 1, 16), 6.0), torch.ones(1, 1, 1, 4)
    for window in (1, 4):
        for pattern in (CAUSAL, FULL):
            assert torch.equal(hybrid_attention(q, -q, v, window_size=window, pattern=pattern), v)
            assert torch.equal(naive.hybrid_attention(q, -q, v, window_size=window, pattern=pattern), v)


@each_dtype
@each_pattern
@pytest.mark.parametrize("level", LEVELS)
def test_a_window_as_long_as_the_text_is_softmax_at_any_logits(
    level: float, pattern: Pattern, dtype: torch.dtype, tolerance: float
) -> None:
    exact = draw(level)
    wanted = softmax(exact, pattern)
    assert_close(naive.hybrid_attention(*exact, window_size=9, pattern=pattern, scale=1.0), wanted, exact, exact, 1e-12)
    given = [x.detach().to(dtype).requires_grad_() for x in exact]
    for window in (9, 100):
        found = hybrid_attention(*given, window_size=window, pattern=pattern, scale=1.0)
        assert_close(found, wanted, given, exact, tolerance)


@pytest.mark.sweep(12)
@each_dtype
@each_pattern
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("level", LEVELS)
def test_any_window_equals_the_oracle_at_any_logits(
    level: float, padded: bool, pattern: Pattern, dtype: torch.dtype, tolerance: float
) -> None:
    # The first text starts with pads, so that later queries see near keys alone; of the second some are pads.
    padding = torch.stack([torch.arange(9) < 5, torch.rand(9) < 0.4]) if padded else None
    for window in (1, 2, 4, 8):
        for offset in (0, 3, -2):
            exact = draw(level)
            options: dict[str, Any] = {"window_size": window, "pattern": pattern, "scale": 1.0, "offset": offset}
            given = [x.detach().to(dtype).requires_grad_() for x in exact]
            found = hybrid_attention(*given, key_padding_mask=padding, **options)
            wanted = naive.hybrid_attention(*exact, key_padding_mask=padding, **options)
            assert_close(found, wanted, given, exact, tolerance)


@pytest.mark.sweep(10)
@each_dtype
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("level", LEVELS)
def test_decoding_equals_the_oracle_at_any_logits(
    level: float, padded: bool, dtype: torch.dtype, tolerance: float
) -> None:
    padding = torch.stack([torch.arange(9) < 5, torch.rand(9) < 0.4]) if padded else None
    for window in (1, 3, 8):
        exact = draw(level)
        given = [x.detach().to(dtype).requires_grad_() for x in exact]
        state: HybridState | None = None
        answers = []
        for new in (slice(0, 4), slice(4, 5), slice(5, 5), slice(5, 6), slice(6, 9)):
            q, k, v = (x[:, :, new] for x in given)
            pads = None if padding is None else padding[:, new]
            answer, state = hybrid_decode(q, k, v, state, window_size=window, scale=1.0, key_padding_mask=pads)
            answers.append(answer)
        wanted = naive.hybrid_attention(*exact, window_size=window, pattern=CAUSAL, scale=1.0, key_padding_mask=padding)
        assert_close(torch.cat(answers, 2), wanted, given, exact, tolerance)


def test_near_and_far_logits_on_two_sides_of_0() -> None:
    for near, far in ((-400.0, 400.0), (400.0, -400.0), (-400.0, -1.0), (30.0, 400.0)):
        q = torch.ones(1, 1, 6, 1, dtype=torch.float64, requires_grad=True)
        k = torch.tensor([far, far, far, near, near, near], dtype=torch.float64).view(1, 1, 6, 1).requires_grad_()
        v = torch.randn(1, 1, 6, 2, dtype=torch.float64, requires_grad=True)
        operands = [q, k, v]
        for window in (1, 2, 3):
            found, wanted = (
                attend(q, k, v, window_size=window, pattern=CAUSAL, scale=1.0)
                for attend in (hybrid_attention, naive.hybrid_attention)
            )
            assert_close(found, wanted, operands, operands, 1e-12)


def test_weights_that_cancel_are_told() -> None:
    """At order 1 a far key with the logit -1 has the weight 0, and here it is the only one."""
    q, v = torch.ones(1, 1, 3, 1), torch.ones(1, 1, 3, 2)
    pads = torch.tensor([[False, True, True]])
    found = hybrid_attention(q, -q, v, window_size=1, order=1, allow_odd=True, scale=1.0, key_padding_mask=pads)
    assert torch.equal(found[:, :, 0], v[:, :, 0])
    assert found[:, :, 1:].isnan().all()


def test_a_sum_that_overflows_is_told() -> None:
    q, k, v = torch.full((1, 1, 4, 1), 1e13), torch.full((1, 1, 4, 1), 1e7), torch.full((1, 1, 4, 1), 1e-30)
    found = hybrid_attention(q, -k, v, window_size=2, pattern=CAUSAL, scale=1.0)
    assert found[:, :, :2].isfinite().all()
    assert found[:, :, 2:].isnan().all()
