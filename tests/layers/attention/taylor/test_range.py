"""Logits and scales of any size: the right answer, or NaN where float32 or the order has none, and never a silent 0."""

from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors

from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor import naive, series_error, taylor_attention, taylor_decode
from porism.layers.attention.taylor.kernels.cpu import Division, Operands

each_pattern = pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(T: int = 300, D: int = 1) -> list[Any]:
    """At width 1 no products cancel within a logit, so that each has all its digits whatever its size."""
    q, k, v = (torch.randn(1, 2, T, width, dtype=torch.float64) for width in (D, D, 3))
    return [x.float().double().requires_grad_() for x in (q, k, v)]


@pytest.mark.sweep(4, each="scale")
@each_pattern
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("scale", [1e4, -1e4, 100.0, 1e-4, -0.5, 0.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
def test_any_scale_equals_the_oracle(
    scale: float, order: int, pattern: Pattern, dtype: torch.dtype, tolerance: float
) -> None:
    exact = draw()
    given = [x.detach().to(dtype).requires_grad_() for x in exact]
    options: dict[str, Any] = {"order": order, "scale": scale, "pattern": pattern}
    found, wanted = taylor_attention(*given, **options), naive.taylor_attention(*exact, **options)
    errors = attention_errors(found, wanted, given, exact, scale)
    assert all(error <= tolerance for error in errors), errors


@each_pattern
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_weights_beyond_the_range_of_half_precision(pattern: Pattern, dtype: torch.dtype) -> None:
    q, k, v = ((x.detach() * size).to(dtype) for x, size in zip(draw(40), (200, 20, 1), strict=True))
    assert (q.double() @ k.double().mT).square().max() / 2 > 65504
    found = taylor_attention(q, k, v, pattern=pattern, scale=1.0)
    wanted = naive.taylor_attention(q.double(), k.double(), v.double(), pattern=pattern, scale=1.0)
    assert (found.double() - wanted).abs().max() <= torch.finfo(dtype).eps * wanted.abs().max()


def test_weights_that_cancel_are_told() -> None:
    """At order 1 a key with the logit -1 has the weight 0."""
    q, v = torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 2)
    options: dict[str, Any] = {"order": 1, "allow_odd": True, "scale": 1.0}
    for pattern in (CAUSAL, FULL):
        assert not taylor_attention(q, -q, v, pattern=pattern, **options).isfinite().any()
    assert not taylor_decode(q, -q, v, **options)[0].isfinite().any()
    assert not series_error(q, -q, v, **options) < 1e9


@each_pattern
def test_a_sum_that_overflows_is_told(pattern: Pattern) -> None:
    q, k, v = torch.full((1, 1, 3, 1), 1e13), torch.full((1, 1, 3, 1), 1e7), torch.full((1, 1, 3, 1), 1e-30)
    assert taylor_attention(q, k, v, pattern=pattern).isnan().all()
    assert taylor_attention(q.double(), k.double(), v.double(), pattern=pattern).isfinite().all()


def test_a_sum_that_rounding_has_taken_is_told() -> None:
    """Orthogonal vectors have weight 1, as the sum of features that may be any number of times larger."""
    q, k, v = torch.ones(1, 1, 6, 1), torch.ones(1, 1, 6, 1), torch.ones(1, 1, 6, 1)
    totals = torch.tensor([4.0, 0.0, -0.0, -2.0, torch.inf, torch.nan]).view(1, 6, 1)
    operands = Operands(q, k, v, None, 1.0)
    for positive, wanted in (
        (True, [0.25, torch.inf, torch.nan, torch.nan, torch.nan, torch.nan]),
        (False, [0.25, torch.inf, -torch.inf, -0.5, torch.nan, torch.nan]),
    ):
        found = Division(operands, CAUSAL, 0, positive).inverse(totals, slice(0, 6))
        assert torch.equal(found.flatten().nan_to_num(7.0), torch.tensor(wanted).nan_to_num(7.0))
    # Two queries stand before the text, and see no key.
    found = Division(operands, CAUSAL, -2, True).inverse(totals, slice(0, 6))
    assert found.flatten()[:2].tolist() == [0, 0]
    assert found.flatten()[2:].isnan().all()


def test_only_a_query_that_sees_no_key_gives_0() -> None:
    q, k, v = (x.detach() for x in draw(6))
    pads = torch.tensor([[True, True, False, True, False, False]])
    for pattern, offset, blind in (
        (CAUSAL, 0, 2),
        (CAUSAL, -2, 4),
        (CAUSAL, 3, 0),
        (Pattern("block-causal", window_size=2), 0, 2),
        (Pattern("block-causal", window_size=4), 0, 0),
        (Pattern("block-causal", window_size=4), -3, 3),
        (FULL, -9, 0),
    ):
        found = taylor_attention(q, k, v, pattern=pattern, offset=offset, key_padding_mask=pads)
        assert not found[:, :, :blind].any()
        assert found[:, :, blind:].all()
    assert not taylor_attention(q, k, v, key_padding_mask=torch.ones_like(pads)).any()
