"""The kernels equal the oracle, forward and backward. Without a GPU Triton's interpreter runs them, on the CPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.layers import kernels as shared
from porism.layers.pattern import Pattern
from porism.layers.window import naive, window_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytest.importorskip("triton", reason="the kernels are written in Triton")
kernels = import_module("porism.layers.window.triton")

FLOAT32, BFLOAT16 = 1e-5, 1e-2


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small tiles, so that a short text has many of them; and what was launched."""
    torch.manual_seed(0)
    monkeypatch.setattr(shared, "DEVICES", {DEVICE})
    monkeypatch.setattr(kernels, "launch", lambda *_: kernels.Launch(16, 16, 4, 1))
    asked: list[str] = []
    for name in ("forward", "backward"):
        monkeypatch.setattr(kernels, name, noting(asked, name, getattr(kernels, name)))
    return asked


def noting(asked: list[str], name: str, function: Any) -> Any:
    def noted(*args: Any) -> Any:
        asked.append(name)
        return function(*args)

    return noted


def operands(T: int, S: int, A: int = 2, G: int = 2, D: int = 8, H: int = 8) -> list[Tensor]:
    return [torch.randn(2, heads, length, width) for heads, length, width in ((A, T, D), (G, S, D), (G, S, H))]


def errors(
    given: list[Tensor],
    pattern: Pattern,
    padding: Tensor | None = None,
    offset: int = 0,
    dtype: torch.dtype = torch.float32,
) -> dict[str, float]:
    """The norms of the errors of the answer and of all gradients, in relation to the oracle's in float64."""
    leaves = [x.to(DEVICE, dtype).requires_grad_() for x in given]
    exact = [x.detach().cpu().double().requires_grad_() for x in leaves]
    found = window_attention(
        *leaves, pattern=pattern, key_padding=None if padding is None else padding.to(DEVICE), offset=offset
    )
    wanted = naive.window_attention(exact[0], exact[1], exact[2], pattern, key_padding=padding, offset=offset)
    weights = torch.randn_like(wanted).to(dtype).double()
    gradients = torch.autograd.grad(found, leaves, weights.to(DEVICE, dtype))
    pairs = zip(
        ("o", "dq", "dk", "dv"),
        (found.detach(), *gradients),
        (wanted.detach(), *torch.autograd.grad(wanted, exact, weights)),
        strict=True,
    )
    return {name: float((one.cpu() - other).norm() / other.norm()) for name, one, other in pairs}


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern("sliding", window=2),
        Pattern("sliding", window=17),
        Pattern("sliding", window=7, ahead=3),
        Pattern("sliding", window=3, dilation=2),
        Pattern("block", window=9),
        Pattern("block", window=9, causal_inside=True),
    ],
    ids=lambda pattern: f"{pattern.kind}-{pattern.window}-{pattern.ahead}-{pattern.dilation}-{pattern.causal_inside}",
)
@pytest.mark.parametrize("T", [3, 7, 33])
def test_the_kernel_is_the_oracle(pattern: Pattern, T: int, launched: list[str]) -> None:
    found = errors(operands(T, T), pattern)
    assert max(found.values()) <= FLOAT32, found
    # A window as long as the text is full attention, which is not for these kernels.
    assert launched in (["forward", "backward"], []) if T < 20 else launched == ["forward", "backward"]


@pytest.mark.parametrize(("A", "G", "D", "H"), [(4, 2, 5, 3), (3, 1, 16, 33), (2, 2, 40, 16)])
def test_grouped_heads_and_any_width(A: int, G: int, D: int, H: int) -> None:
    found = errors(operands(21, 21, A, G, D, H), Pattern("sliding", window=6))
    assert max(found.values()) <= FLOAT32, found


def test_padding_and_queries_that_look_at_nothing() -> None:
    padding = torch.rand(2, 33) < 0.5
    padding[1, :12] = True
    given = operands(33, 33)
    found = errors(given, Pattern("sliding", window=4), padding)
    assert max(found.values()) <= FLOAT32, found
    on_device = [x.to(DEVICE) for x in given]
    answer = window_attention(*on_device, pattern=Pattern("sliding", window=4), key_padding=padding.to(DEVICE))
    assert not answer[1, :, :12].any()


@pytest.mark.parametrize(("T", "S", "offset"), [(5, 40, 35), (40, 5, 0), (7, 30, 11)])
def test_texts_that_continue_and_other_lengths_of_keys(T: int, S: int, offset: int) -> None:
    found = errors(operands(T, S), Pattern("sliding", window=6), offset=offset)
    assert max(found.values()) <= FLOAT32, found


def test_bfloat16() -> None:
    found = errors(operands(19, 19), Pattern("sliding", window=6), dtype=torch.bfloat16)
    assert max(found.values()) <= BFLOAT16, found


def test_the_same_bits_on_every_run() -> None:
    given = [x.to(DEVICE).requires_grad_() for x in operands(33, 33)]

    def run() -> list[Tensor]:
        out = window_attention(*given, pattern=Pattern("sliding", window=9))
        return [out, *torch.autograd.grad(out.square().sum(), given)]

    assert all(torch.equal(one, other) for one, other in zip(run(), run(), strict=True))


def test_rows_in_any_order_of_memory() -> None:
    q, k, v = (x.to(DEVICE) for x in operands(20, 20))
    other_q, other_k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    other_v = v.mT.contiguous().mT
    near = Pattern("sliding", window=5)
    wanted = window_attention(q, k, v, pattern=near)
    assert torch.equal(window_attention(other_q, other_k, other_v, pattern=near), wanted)
