"""A single query a head that continues a text, where keys and values have two widths: products without a copy."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.closeness import error
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from porism.layers import KVCache, Pattern, softmax_decode
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import method, naive

EXACT = 1e-12
B, A = 2, 4
decode: Callable[..., tuple[Tensor, KVCache]] = softmax_decode


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(T: int, G: int = A, D: int = 3, H: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(B, heads, T, width).to(dtype) for heads, width in ((A, D), (G, D), (G, H))]


PATTERNS = [CAUSAL, Pattern("sliding", window_size=3), Pattern("block", window_size=4, is_causal=True)]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often keys or values were filled up with zeros."""
    taken: list[int] = []

    def noted(x: Tensor, sizes: Any) -> Tensor:
        taken.append(x.shape[2])
        return torch.nn.functional.pad(x, sizes)

    monkeypatch.setattr(method, "pad", noted)
    return taken


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("G", [1, 2, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_a_single_query_needs_no_copy_where_keys_and_values_have_two_widths(
    pattern: Pattern, G: int, padded: bool, copies: list[int]
) -> None:
    for D, H in ((3, 5), (5, 2)):
        q, k, v = draw(9, G=G, D=D, H=H)
        # The first text is all padding, the second begins with it.
        pads = torch.stack([torch.ones(9).bool(), torch.arange(9) < 3]) if padded else None
        state, answers = None, []
        for t in range(9):
            now = slice(t, t + 1)
            mask = None if pads is None else pads[:, now]
            options: dict[str, Any] = {"pattern": pattern, "scale": 0.7, "key_padding_mask": mask}
            with torch.no_grad():
                answer, state = decode(q[:, :, now], k[:, :, now], v[:, :, now], state, **options)
            answers.append(answer)
        wanted = naive.softmax_attention(q, k, v, naive.looked_at(pattern, q, k, pads), scale=0.7)
        assert error(torch.cat(answers, 2), wanted) <= EXACT
        assert not padded or not torch.cat(answers, 2)[0].any()
        # It may be changed in place, also by what wants a gradient.
        weight = torch.ones(H, dtype=torch.float64, requires_grad=True)
        answers[-1].mul_(weight).sum().backward()
        # Whatever strides its queries have.
        _, before = decode(*(x[:, :, :8] for x in (q, k, v)), pattern=pattern, scale=0.7)
        turned = q[:, :, 8:].permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
        last, _ = decode(turned, k[:, :, 8:], v[:, :, 8:], before, pattern=pattern, scale=0.7)
        assert padded or error(last, wanted[:, :, 8:]) <= EXACT
    # Only by the eight tokens at once.
    assert set(copies) == {8}


def test_a_single_query_of_half_types_keeps_the_fused_kernel(copies: list[int]) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        decode(*draw(1, dtype=dtype))
    assert len(copies) == 6


def test_large_logits_of_a_single_query_do_not_overflow() -> None:
    q, k, v = (x.mul(2).round() for x in draw(5))
    _, state = decode(*(x[:, :, :4] for x in (q, k, v)), scale=512.0)
    found, _ = decode(*(x[:, :, 4:] for x in (q, k, v)), state, scale=512.0)
    wanted = naive.softmax_attention(q, k, v, naive.looked_at(CAUSAL, q, k), scale=512.0)
    assert error(found, wanted[:, :, 4:]) <= EXACT


def test_who_records_or_counts_gets_the_fused_kernel(copies: list[int]) -> None:
    q, k, v = draw(1)
    wanted, _ = decode(q, k, v)
    assert copies == []
    with FlopCounterMode(display=False):
        assert error(decode(q, k, v)[0], wanted) <= EXACT
    assert len(copies) == 3
    for i in range(3):
        leaves = [x.clone().requires_grad_(i == j) for j, x in enumerate((q, k, v))]
        assert decode(*leaves)[0].requires_grad
    assert len(copies) == 12
