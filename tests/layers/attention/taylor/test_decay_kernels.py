"""Keys that decay, by kernels: they equal float64. Without a GPU Triton's interpreter runs them, on the CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.closeness import error, gradient_errors
from torch import Tensor

from porism.layers import kernels as shared
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor import TaylorAttention, TaylorState, naive, taylor_attention, taylor_decode
from porism.layers.attention.taylor.gradient import gradient as gradient_by_hand
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings, forward
from porism.layers.attention.taylor.kernels.triton.sizes import SeriesLaunch, Sizes
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(5)  # an interpreter takes seconds for a pass

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs.triton()
passes = import_module("porism.layers.attention.taylor.kernels.triton.launches")

FLOAT32 = 1e-5
CHUNK = 32
TILES = SeriesLaunch(32, 16, 64, 4, 1)
SMALL = Sizes(SeriesLaunch(16, 1, 64, 4, 1), TILES, TILES, TILES)
FASTEST = {"slow": 0.02, "fast": 1.0, "at once": 60.0}
"""The most that the logarithm of a weight loses at a step. By 60 a key is gone in float32."""

each_layout = pytest.mark.parametrize("by_pairs", [False, True], ids=["turns", "pairs"])
each_speed = pytest.mark.parametrize("speed", FASTEST.values(), ids=FASTEST)
Small = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    """Small tiles and chunks in one of the layouts, on this device; and notes of which kernels are called."""

    def set_up(by_pairs: bool = False, chunk: int = CHUNK) -> list[str]:
        monkeypatch.setattr(passes, "sizes", lambda *_: SMALL)
        monkeypatch.setattr(passes, "chunk", lambda *_: chunk)
        monkeypatch.setattr(passes, "by_pairs", lambda *_: by_pairs)
        return served(monkeypatch)

    return set_up


def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shared, "DEVICES", {DEVICE})
    calls: list[str] = []

    def noting(name: str, function: Any) -> Any:
        def noted(*args: Any) -> Any:
            calls.append(name)
            return function(*args)

        return noted

    for name in ("forward", "backward", "step"):
        monkeypatch.setattr(passes, name, noting(name, getattr(passes, name)))
    return calls


def operands(T: int, A: int = 2, G: int = 1, D: int = 16, H: int = 7, speed: float = 0.1) -> list[Tensor]:
    """q, k, v and log_decay of two texts, in float64 with numbers that float32 has too."""
    sizes = (2, A, T, D), (2, G, T, D), (2, G, T, H)
    drawn = [torch.randn(size, device=DEVICE) for size in sizes]
    return [x.double() for x in (*drawn, -speed * torch.rand(2, G, T, device=DEVICE))]


def padding_of(T: int) -> Tensor:
    """The first text is all padding, and of the second some."""
    return torch.stack([torch.ones(T).bool(), torch.rand(T) < 0.4]).to(DEVICE)


def errors(given: list[Tensor], padding: Tensor | None = None, dtype: torch.dtype = torch.float32) -> list[float]:
    """Of the answer, and of the gradients of q, k, v and log_decay, beside the oracle's in float64."""
    *rows, log_decay = given
    ours = [x.to(dtype).requires_grad_() for x in rows] + [log_decay.float().requires_grad_()]
    exact = [x.detach().double().requires_grad_() for x in ours]
    options: dict[str, Any] = {"pattern": CAUSAL, "key_padding_mask": padding}
    found = taylor_attention(ours[0], ours[1], ours[2], log_decay=ours[3], **options)
    wanted = naive.taylor_attention(exact[0], exact[1], exact[2], log_decay=exact[3], **options)
    dz = torch.randn_like(wanted).to(dtype)
    slopes = torch.autograd.grad(found, ours, dz)
    assert [x.dtype for x in (found, *slopes)] == [dtype, dtype, dtype, dtype, torch.float32]
    expected = torch.autograd.grad(wanted, exact, dz.double())
    return [error(found, wanted), *gradient_errors(slopes, expected, exact, dz.double())]


def worst(found: list[float]) -> float:
    """NaN counts."""
    return float(torch.tensor(found).max())


@pytest.mark.sweep(2, each="T")
@each_layout
@pytest.mark.parametrize("T", [2, 7, 63, 130])
def test_equals_the_oracle_forward_and_backward(T: int, by_pairs: bool, small: Small) -> None:
    calls = small(by_pairs)
    assert worst(errors(operands(T))) <= FLOAT32
    assert calls == ["forward", "backward"]


@each_layout
def test_a_pad_is_no_step(by_pairs: bool, small: Small) -> None:
    small(by_pairs)
    assert worst(errors(operands(75, A=4, G=2, speed=1.0), padding_of(75))) <= FLOAT32


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("D", "H"), [(8, 1), (16, 64), (32, 7), (64, 16)])
def test_every_width(D: int, H: int, small: Small) -> None:
    small()
    assert worst(errors(operands(65 if D < 64 else 33, A=1, D=D, H=H))) <= FLOAT32


@pytest.mark.sweep(1)
@each_speed
@each_layout
def test_all_speeds(by_pairs: bool, speed: float, small: Small) -> None:
    small(by_pairs)
    assert worst(errors(operands(100, A=1, speed=speed))) <= FLOAT32


@each_layout
def test_a_step_after_large_ones_keeps_its_digits(by_pairs: bool, small: Small) -> None:
    """Sums reach 8,000, of which float32 would leave three decimals, and the last of them differ by 0.1."""
    small(by_pairs, chunk=128)
    *rows, _ = operands(140, A=1)
    log_decay = torch.full((2, 1, 140), -60.0, device=DEVICE).double()
    log_decay[..., 96:] = -0.1 * torch.rand(44, device=DEVICE)
    assert worst(errors([*rows, log_decay])) <= FLOAT32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@each_layout
def test_half_types(by_pairs: bool, dtype: torch.dtype, small: Small) -> None:
    small(by_pairs)
    assert worst(errors(operands(70, A=1), dtype=dtype)) <= 1e-2


def test_the_sizes_that_a_gpu_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = served(monkeypatch)
    assert worst(errors(operands(290, A=1, H=64))) <= FLOAT32
    assert calls == ["forward", "backward"]


@pytest.mark.sweep(2)
@each_layout
@pytest.mark.parametrize("T", [1, 7, 40, 75])
def test_a_state_goes_in_and_out_and_gradients_through_it(T: int, by_pairs: bool, small: Small) -> None:
    """Some noise makes the first state one that no keys have left."""
    small(by_pairs)
    q, k, v, log_decay = operands(T)
    padding = torch.rand(2, T, device=DEVICE) < 0.3
    log_decay = log_decay.masked_fill(padding[:, None], 0)
    task = SeriesSettings("rolled", 2, CAUSAL, 0.4, 0, True)
    first = forward(task, *operands(9)[:3])[2]
    first += 0.01 * torch.randn_like(first)
    dz, dlast = torch.randn_like(q[..., :7]), torch.randn_like(first)
    wanted = forward(task, q, k, v, padding, log_decay, first)
    slopes = gradient_by_hand(task, dz, dlast, q, k, v, padding, log_decay, first, *wanted[:2])
    single = [x.float() for x in (q, k, v)]
    rest = padding, log_decay.float(), first.float()
    found = passes.forward(task, *single, *rest)
    back = passes.backward(task, dz.float(), dlast.float(), *single, *rest, *found[:2])
    off = [relative_error(x, y) for x, y in zip((*found, *back), (*wanted, *slopes), strict=True)]
    assert worst(off) <= FLOAT32


def decoded(given: list[Tensor], part: slice, state: TaylorState | None, **options: Any) -> tuple[Tensor, TaylorState]:
    q, k, v, log_decay = (x[:, :, part] for x in given)
    return taylor_decode(q, k, v, state, log_decay=log_decay, **options)


def test_a_token_moves_a_state_on_that_decays(small: Small) -> None:
    calls = small()
    for G, padded in ((1, False), (3, True)):
        given = operands(12, A=3, G=G, D=8, H=70, speed=1.0)
        padding = torch.tensor([[False], [True]], device=DEVICE) if padded else None
        if padded:
            given[3][1, :, -1] = 0
        _, before = decoded(given, slice(0, 11), None)
        wanted, after = decoded(given, slice(11, 12), before, key_padding_mask=padding)
        state = TaylorState(before.sums.float(), before.weights.float())
        found, moved = decoded([x.float() for x in given], slice(11, 12), state, key_padding_mask=padding)
        off = [relative_error(x, y) for x, y in zip((found, *moved[:2]), (wanted, *after[:2]), strict=True)]
        assert worst(off) <= FLOAT32
    assert calls == ["step"] * 2


def test_a_gate_learns_through_a_token_that_is_decoded(small: Small) -> None:
    calls = small()
    given = [x.float() for x in operands(6, A=1, D=8)]
    _, state = decoded(given, slice(0, 5), None)
    exact = [x.double() for x in given]
    for some in (given, exact):
        some[3].requires_grad_()
    last, _ = decoded(given, slice(5, 6), state)
    whole = naive.taylor_attention(exact[0], exact[1], exact[2], pattern=CAUSAL, log_decay=exact[3])
    found = torch.autograd.grad(last.sum(), given[3])[0][:, :, 5]
    assert relative_error(found, torch.autograd.grad(whole[:, :, 5:].sum(), exact[3])[0][:, :, 5]) <= FLOAT32
    assert calls == ["forward", "forward", "step"]


def test_one_token_goes_back_without_kernels(small: Small) -> None:
    """A compiler has made code of them that reads where nothing is."""
    calls = small()
    assert worst(errors(operands(1, D=32))) <= FLOAT32
    assert calls == ["forward"]


def test_the_gradient_of_many_steps_in_one_chunk_is_precise_where_the_scale_is_no_power_of_two(small: Small) -> None:
    """A difference of two sums over the same weights, so that these have to be rounded alike in both."""
    small(chunk=256)
    given = operands(256, A=1, D=32, H=16)
    assert errors(given, dtype=torch.bfloat16)[-1] <= 1e-2


def test_a_layer_that_decays_has_the_kernels(small: Small) -> None:
    calls = small()
    layer = TaylorAttention(32, 4, num_kv_heads=2, batch_first=True, decay="token", device=DEVICE)
    x = torch.randn(2, 40, 32, device=DEVICE)
    assert layer.kernel_for(torch.empty(0, 4, 0, 8, device=DEVICE)) == "triton"
    wanted = torch.autograd.grad(layer.double()(x.double(), is_causal=True)[0].sum(), list(layer.parameters()))
    assert calls == []
    found = torch.autograd.grad(layer.float()(x, is_causal=True)[0].sum(), list(layer.parameters()))
    assert calls == ["forward", "backward"]
    assert relative_error(*(torch.cat([x.flatten() for x in slopes]) for slopes in (found, wanted))) <= FLOAT32
