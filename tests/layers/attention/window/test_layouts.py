"""Operands and incoming gradients in any layout, with any pattern, offset and scale: as the dense oracle in float64."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers import layouts
from torch import Tensor

from porism.layers import Pattern, softmax_attention, window_attention, window_decode
from porism.layers.attention.auto import attention
from porism.layers.attention.softmax import naive
from porism.layers.attention.softmax.functional import softmax_decode

EXACT = 1e-11
LAYOUTS: dict[str, layouts.Layout] = layouts.LAYOUTS | {
    "expanded along the heads": lambda x: x[:, :1].expand(x.shape),
    "expanded along the length": lambda x: x[:, :, :1].expand(x.shape),
    "tokens first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
}
PATTERNS = [
    *(
        Pattern("sliding", window_size=W, lookahead=ahead)
        for W, ahead in ((1, 0), (3, 0), (5, 2), (40, 0), (2, 90), (500, 500))
    ),
    *(
        Pattern("sliding", window_size=W, lookahead=ahead, dilation=d)
        for W, ahead, d in ((2, 0, 2), (4, 1, 3), (3, 0, 50))
    ),
    *(Pattern("block", window_size=W, is_causal=inside) for W in (1, 4, 9, 100) for inside in (False, True)),
]
SCALES = (None, 0.7, -0.7, 0.0, -3.0, 1e-45, -1e-300, 20.0)
OFFSETS = (0, 0, 0, 3, -2, -5, 31, -31, 70, -70, 2**31 - 1, 1 - 2**31)

Operands = tuple[Tensor, Tensor, Tensor]
Attend = Callable[..., Tensor]


def drawn(random: random.Random, B: int, A: int, G: int, T: int, S: int, D: int, H: int) -> Operands:
    """q, k and v, each in a layout of its own."""
    q, k, v = (
        random.choice(list(LAYOUTS.values()))(torch.randn(shape, dtype=torch.float64)).detach().requires_grad_()
        for shape in ((B, A, T, D), (B, G, S, D), (B, G, S, H))
    )
    return q, k, v


def assert_equals_oracle(
    found: Tensor, operands: Operands, incoming: Tensor, mask: Tensor, scale: float | None
) -> None:
    """The answer and all gradients, beside the largest terms that they are sums of."""
    q, k, v = (x.detach().clone().requires_grad_() for x in operands)
    wanted = naive.softmax_attention(q, k, v, mask, scale)
    size = max(1.0, abs(q.shape[-1] ** -0.5 if scale is None else scale)) * max(1.0, float(incoming.abs().max()))
    ours = found, *torch.autograd.grad(found, operands, incoming)
    theirs = wanted, *torch.autograd.grad(wanted, (q, k, v), incoming)
    for name, one, other in zip(("o", "dq", "dk", "dv"), ours, theirs, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, rtol=EXACT, atol=EXACT * size), (name, float((one - other).abs().max()))


@pytest.fixture(params=["fused", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways that blocks can go, in small parts so that there is more than one."""
    if request.param == "by hand":
        monkeypatch.setattr("porism.layers.attention.window.method._kernel", lambda *_: "products")
    monkeypatch.setattr("porism.layers.attention.window.kernels.blocks._CACHE_BYTES", 2**14)


@pytest.mark.sweep(2, each="layout")
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "pattern",
    [
        Pattern("block", window_size=4),
        Pattern("block", window_size=4, is_causal=True),
        Pattern("sliding", window_size=1),
        Pattern("sliding", window_size=4),
        Pattern("sliding", window_size=3, dilation=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("offset", [0, 4])
def test_each_operand_in_each_layout(layout: Callable[[Tensor], Tensor], pattern: Pattern, offset: int) -> None:
    torch.manual_seed(0)
    shapes = (2, 4, 40, 8), (2, 2, 40, 8), (2, 2, 40, 8)
    for place in range(4):
        dense = [torch.randn(shape, dtype=torch.float64) for shape in (*shapes, (2, 4, 40, 8))]
        dense[place] = layout(dense[place])
        q, k, v = (x.detach().requires_grad_() for x in dense[:3])
        found = window_attention(q, k, v, pattern=pattern, offset=offset)
        assert_equals_oracle(found, (q, k, v), dense[3], naive.looked_at(pattern, q, k, None, offset), None)


def test_a_long_text_that_is_cut_in_parts() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 2048, 32)
    for pattern in (Pattern("sliding", window_size=48), Pattern("block", window_size=64)):
        wanted = window_attention(q, k, v, pattern=pattern)
        for layout in ("transposed", "stepped", "channels last"):
            other: list[Any] = [LAYOUTS[layout](x) for x in (q, k, v)]
            assert torch.equal(window_attention(*other, pattern=pattern), wanted), layout


@pytest.mark.usefixtures("fresh_memory_is_nan")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("H", [1, 8])
def test_rows_of_one_number(H: int, dtype: torch.dtype) -> None:
    """Their stride may be anything, and rows that are padded to the width of the values would have it."""
    torch.manual_seed(0)
    blocks = (Pattern("block", window_size=window, is_causal=True) for window in (1, 3))
    for pattern in (*blocks, Pattern("sliding", window_size=2)):
        q, k = (x.mT.requires_grad_() for x in torch.randn(2, 1, 1, 1, 6, dtype=torch.float64).to(dtype))
        v = torch.randn(1, 1, 6, H, dtype=torch.float64).to(dtype).requires_grad_()
        found, _ = window_decode(q, k, v, pattern=pattern)
        incoming = torch.randn(found.shape, dtype=torch.float64).to(dtype)
        exact = tuple(x.detach().double().requires_grad_() for x in (q, k, v))
        wanted = naive.softmax_attention(exact[0], exact[1], exact[2], naive.looked_at(pattern, q, k, None, 0), None)
        ours = found, *torch.autograd.grad(found, (q, k, v), incoming)
        theirs = wanted, *torch.autograd.grad(wanted, exact, incoming.double())
        for one, other in zip(ours, theirs, strict=True):
            assert torch.allclose(one.double(), other, rtol=0, atol=50 * torch.finfo(dtype).eps), pattern


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(6))
def test_any_layouts_patterns_offsets_and_scales(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(40):
        B, G, T = draw.choice([0, 1, 2]), draw.choice([1, 2]), draw.choice([0, 1, 2, 7, 33, 70])
        S = T if draw.random() < 0.6 else draw.choice([0, 1, 5, 40])
        D, A = draw.choice([1, 3, 8]), G * draw.choice([1, 2])
        H = D if draw.random() < 0.6 else draw.choice([1, 5, 9])
        operands = drawn(draw, B, A, G, T, S, D, H)
        pattern, offset, scale = draw.choice(PATTERNS), draw.choice(OFFSETS), draw.choice(SCALES)
        padding = torch.rand(B, S) < draw.choice([0.3, 0.9, 1.1]) if draw.random() < 0.4 else None
        found = window_attention(*operands, pattern=pattern, offset=offset, scale=scale, key_padding_mask=padding)
        incoming = draw.choice(list(LAYOUTS.values()))(torch.randn(B, A, T, H, dtype=torch.float64))
        if min(B, T, S) == 0:
            assert not found.any()
            assert not any(x.any() for x in torch.autograd.grad(found, operands, incoming))
            continue
        mask = naive.looked_at(pattern, *operands[:2], padding, offset)
        assert_equals_oracle(found, operands, incoming, mask, scale)


@pytest.mark.sweep(2, each="layout")
@pytest.mark.parametrize("function", [softmax_decode, window_decode], ids=["softmax", "window"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("scale", [None, -0.5, 0.0])
def test_decoding_in_any_layout(function: Any, layout: Callable[[Tensor], Tensor], scale: float | None) -> None:
    torch.manual_seed(0)
    for pattern in (
        Pattern("causal"),
        Pattern("sliding", window_size=3),
        Pattern("block", window_size=4, is_causal=True),
    ):
        q, k, v = (layout(torch.randn(2, 2, 11, 4, dtype=torch.float64)).detach().requires_grad_() for _ in range(3))
        state, answers = None, []
        for start, end in ((0, 5), (5, 6), (6, 6), (6, 11)):
            part = (x[:, :, start:end] for x in (q, k, v))
            answer, state = function(*part, state, pattern=pattern, scale=scale)
            answers.append(answer)
        incoming = torch.randn(2, 2, 11, 4, dtype=torch.float64)
        mask = naive.looked_at(pattern, q, k)
        assert_equals_oracle(torch.cat(answers, 2), (q, k, v), incoming, mask, scale)


FORMS: dict[str, Attend] = {
    "softmax": softmax_attention,
    **{
        name: lambda *operands, name=name, **options: attention(*operands, mechanism=name, **options)
        for name in ("softmax", "window", "dense-softmax")
    },
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_every_form_gives_the_same(name: str, seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(20):
        T = draw.choice([1, 2, 7, 33])
        operands = drawn(draw, 2, 4, 2, T, T if draw.random() < 0.6 else 5, 3, draw.choice([3, 5]))
        pattern, offset, scale = draw.choice(PATTERNS), draw.choice(OFFSETS), draw.choice(SCALES)
        found = FORMS[name](*operands, pattern=pattern, offset=offset, scale=scale)
        incoming = draw.choice(list(LAYOUTS.values()))(torch.randn(found.shape, dtype=torch.float64))
        mask = naive.looked_at(pattern, *operands[:2], None, offset)
        assert_equals_oracle(found, operands, incoming, mask, scale)
