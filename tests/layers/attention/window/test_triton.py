"""The kernels equal the oracle, forward and backward. Without a GPU Triton's interpreter runs them, on the CPU."""

from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.layouts import LAYOUTS
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import kernels as shared
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window import naive, window_attention

pytestmark = pytest.mark.sample(5)  # an interpreter takes a second for a kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs.triton()
kernels = import_module("porism.layers.attention.window.kernels.triton")

FLOAT32, BFLOAT16 = 1e-5, 1e-2


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small tiles, so that a short text has many of them; and what was launched."""
    torch.manual_seed(0)
    monkeypatch.setattr(shared, "DEVICES", {DEVICE})
    monkeypatch.setattr(kernels, "launch", lambda *_: kernels.WindowLaunch(16, 16, 4, 1))
    asked: list[str] = []
    for name in ("forward", "backward"):
        monkeypatch.setattr(kernels, name, noting(asked, name, getattr(kernels, name)))
    return asked


def noting(asked: list[str], name: str, function: Any) -> Any:
    def noted(*args: Any) -> Any:
        asked.append(name)
        return function(*args)

    return noted


def operands(T: int, S: int, A: int = 2, G: int = 2, D: int = 8, H: int = 8) -> list[Any]:
    return [torch.randn(2, heads, length, width) for heads, length, width in ((A, T, D), (G, S, D), (G, S, H))]


def errors(
    given: list[Any],
    pattern: Pattern,
    padding: Tensor | None = None,
    offset: int = 0,
    dtype: torch.dtype = torch.float32,
    scale: float | None = None,
) -> dict[str, float]:
    """The norms of the errors of the answer and of all gradients, in relation to the oracle's in float64."""
    leaves = [x.to(DEVICE, dtype).requires_grad_() for x in given]
    exact = [x.detach().cpu().double().requires_grad_() for x in leaves]
    options: dict[str, Any] = {"pattern": pattern, "offset": offset, "scale": scale}
    found = window_attention(*leaves, **options, key_padding_mask=None if padding is None else padding.to(DEVICE))
    wanted = naive.window_attention(exact[0], exact[1], exact[2], **options, key_padding_mask=padding)
    weights = torch.randn_like(wanted).to(dtype).double()
    gradients = torch.autograd.grad(found, leaves, weights.to(DEVICE, dtype))
    pairs = zip(
        ("o", "dq", "dk", "dv"),
        (found.detach(), *gradients),
        (wanted.detach(), *torch.autograd.grad(wanted, exact, weights)),
        strict=True,
    )
    return {name: float((one.cpu() - other).norm() / other.norm().clamp(min=1e-3)) for name, one, other in pairs}


@pytest.mark.sweep(1, each="pattern")
@pytest.mark.parametrize(
    "pattern",
    [
        Pattern("sliding", window_size=2),
        Pattern("sliding", window_size=17),
        Pattern("sliding", window_size=7, lookahead=3),
        Pattern("sliding", window_size=3, dilation=2),
        Pattern("block", window_size=9),
        Pattern("block", window_size=9, is_causal=True),
    ],
    ids=lambda pattern: (
        f"{pattern.kind}-{pattern.window_size}-{pattern.lookahead}-{pattern.dilation}-{pattern.is_causal}"
    ),
)
@pytest.mark.parametrize("T", [3, 7, 33])
def test_the_kernel_is_the_oracle(pattern: Pattern, T: int, launched: list[str]) -> None:
    found = errors(operands(T, T), pattern)
    assert max(found.values()) <= FLOAT32, found
    # A window as long as the text is full attention, which is not for these kernels.
    assert launched in (["forward", "backward"], []) if T < 20 else launched == ["forward", "backward"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("A", "G", "D", "H"), [(4, 2, 5, 3), (3, 1, 16, 33), (2, 2, 40, 16)])
def test_grouped_heads_and_any_width(A: int, G: int, D: int, H: int) -> None:
    found = errors(operands(21, 21, A, G, D, H), Pattern("sliding", window_size=6))
    assert max(found.values()) <= FLOAT32, found


def test_padding_and_queries_that_look_at_nothing() -> None:
    padding = torch.rand(2, 33) < 0.5
    padding[1, :12] = True
    given = operands(33, 33)
    found = errors(given, Pattern("sliding", window_size=4), padding)
    assert max(found.values()) <= FLOAT32, found
    on_device = [x.to(DEVICE) for x in given]
    answer = window_attention(
        *on_device, pattern=Pattern("sliding", window_size=4), key_padding_mask=padding.to(DEVICE)
    )
    assert not answer[1, :, :12].any()


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("T", "S", "offset"), [(5, 40, 35), (40, 5, 0), (7, 30, 11)])
def test_texts_that_continue_and_other_lengths_of_keys(T: int, S: int, offset: int) -> None:
    found = errors(operands(T, S), Pattern("sliding", window_size=6), offset=offset)
    assert max(found.values()) <= FLOAT32, found


def test_bfloat16() -> None:
    found = errors(operands(19, 19), Pattern("sliding", window_size=6), dtype=torch.bfloat16)
    assert max(found.values()) <= BFLOAT16, found


def test_the_same_bits_on_every_run() -> None:
    given = [x.to(DEVICE).requires_grad_() for x in operands(33, 33, 1, 1)]

    def run() -> list[Any]:
        out = window_attention(*given, pattern=Pattern("sliding", window_size=9))
        return [out, *torch.autograd.grad(out.square().sum(), given)]

    assert all(torch.equal(one, other) for one, other in zip(run(), run(), strict=True))


def test_rows_in_any_order_of_memory() -> None:
    q, k, v = (x.to(DEVICE) for x in operands(20, 20))
    other_q, other_k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    other_v = v.mT.contiguous().mT
    near = Pattern("sliding", window_size=5)
    wanted = window_attention(q, k, v, pattern=near)
    assert torch.equal(window_attention(other_q, other_k, other_v, pattern=near), wanted)


BLOCK, INSIDE, NEAR = (
    Pattern("block", window_size=5),
    Pattern("block", window_size=5, is_causal=True),
    Pattern("sliding", window_size=6, lookahead=2),
)


@pytest.mark.sweep(1, each="pattern")
@pytest.mark.parametrize("pattern", [BLOCK, INSIDE, NEAR], ids=["block", "inside", "sliding"])
@pytest.mark.parametrize("offset", [-1, -7, 12])
def test_offsets_below_zero_and_beyond_the_keys(pattern: Pattern, offset: int, launched: list[str]) -> None:
    found = errors([x[:1] for x in operands(19, 14, 1, 1)], pattern, offset=offset)
    assert max(found.values()) <= FLOAT32, found
    assert launched == ["forward", "backward"]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("pattern", [INSIDE, NEAR], ids=["inside", "sliding"])
@pytest.mark.parametrize("scale", [-3.0, 0.0, 1e-45])
def test_any_scale(pattern: Pattern, scale: float, launched: list[str]) -> None:
    padding = torch.rand(2, 17) < 0.3
    padding[1] = True
    found = errors(operands(17, 17, 1, 1), pattern, padding, scale=scale)
    assert max(found.values()) <= FLOAT32, found
    assert launched == ["forward", "backward"]


def test_a_scale_is_learned() -> None:
    q, k, v = (x.to(DEVICE) for x in operands(17, 17, 1, 1))
    scale = nn.Parameter(torch.tensor(-0.4, device=DEVICE))
    exact = torch.tensor(-0.4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 1, 17, 8)
    (found,) = torch.autograd.grad(window_attention(q, k, v, pattern=NEAR, scale=scale), scale, weights.to(DEVICE))
    q, k, v = (x.double().cpu() for x in (q, k, v))
    (wanted,) = torch.autograd.grad(naive.window_attention(exact * q, k, v, NEAR, 1.0), exact, weights.double())
    assert float(found) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_forward_and_back(layout: Any, launched: list[str]) -> None:
    shapes = (1, 2, 17, 4), (1, 1, 17, 4), (1, 1, 17, 4), (1, 2, 17, 4)
    q, k, v, dO = (torch.randn(shape).to(DEVICE) for shape in shapes)
    given = [layout(x).detach().requires_grad_() for x in (q, k, v)]
    plain = [x.detach().clone(memory_format=torch.contiguous_format).requires_grad_() for x in given]
    found, wanted = (window_attention(*parts, pattern=BLOCK) for parts in (given, plain))
    assert torch.equal(found, wanted)
    ours = torch.autograd.grad(found, given, layout(dO))
    theirs = torch.autograd.grad(wanted, plain, layout(dO).clone(memory_format=torch.contiguous_format))
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert "backward" in launched


def test_an_answer_may_be_changed_in_place(launched: list[str]) -> None:
    given = [x.to(DEVICE).requires_grad_() for x in operands(17, 17, 1, 1)]
    gradients = []
    for in_place in (True, False):
        answer = window_attention(*given, pattern=NEAR)
        answer = answer.mul_(2).relu_() if in_place else (answer * 2).relu()
        gradients.append(torch.autograd.grad(answer.sum(), given))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    assert launched.count("backward") == 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_padding_of_whole_numbers_is_refused(dtype: torch.dtype, launched: list[str]) -> None:
    given = [x.to(DEVICE) for x in operands(17, 17, 1, 1)]
    with pytest.raises(ShapeError, match="key_padding_mask is"):
        window_attention(*given, pattern=NEAR, key_padding_mask=torch.ones(2, 17, dtype=dtype, device=DEVICE))
    assert not launched


def test_nothing_to_attend_to() -> None:
    for (B, T, S), pattern in product(((0, 7, 7), (2, 0, 7), (2, 7, 0)), (BLOCK, NEAR)):
        q, k, v = (torch.randn(B, 2, n, 8, device=DEVICE, requires_grad=True) for n in (T, S, S))
        answer = window_attention(q, k, v, pattern=pattern)
        assert answer.shape == (B, 2, T, 8)
        assert not any(x.any() for x in (answer, *torch.autograd.grad(answer.sum(), (q, k, v))))
