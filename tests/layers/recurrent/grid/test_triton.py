"""The kernel against the loops, in Triton's interpreter where there is no GPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from torch import Tensor

from porism.layers import kernels
from porism.layers.recurrent.grid import functional as recurrence
from porism.layers.recurrent.grid import grid, naive
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(6)  # an interpreter takes a second for a kernel

needs.triton()
triton: Any = import_module("porism.layers.recurrent.grid.kernels.triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_take_the_tensors_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEVICES", {DEVICE})


def drawn(B: int, C: int, H: int, Y: int, X: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = ((B, C, Y, X), (H, C), (H, H), (H, H), (H,))
    scales = (1.0, C**-0.5, H**-0.5, H**-0.5, 0.5)
    parts = [torch.randn(shape, generator=draw) * scale for shape, scale in zip(shapes, scales, strict=True)]
    return [part.to(DEVICE, dtype).requires_grad_() for part in parts]


def errors(leaves: list[Tensor], nonlinearity: str = "sigmoid", direction: str = "top-left") -> list[float]:
    """Of the states and of every gradient."""
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    x, weight_in, weight_left, weight_top, bias = exact
    turned = naive.rotated(x, direction)
    h = naive.grid(turned, weight_in.mT, weight_left.mT, weight_top.mT, bias, nonlinearity)
    wanted = naive.rotated(h, direction)
    x, weight_in, weight_left, weight_top, bias = leaves
    found = grid(x, weight_in, weight_left, weight_top, bias, nonlinearity, direction=direction)
    dy = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE, x.dtype)
    pairs = [(found, wanted)]
    pairs += zip(torch.autograd.grad(found, leaves, dy), torch.autograd.grad(wanted, exact, dy.double()), strict=True)
    assert all(one.dtype == x.dtype for one, _ in pairs)
    return [relative_error(one.double(), other) for one, other in pairs]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the kernel was called for: False for forward, True for back."""
    seen: list[bool] = []
    scanned = triton._scanned

    def watched(*args: Any, **options: Any) -> Any:
        seen.append(options["back"])
        return scanned(*args, **options)

    monkeypatch.setattr(triton, "_scanned", watched)
    return seen


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest that products take, so that small images have several bands and few units several tiles."""
    monkeypatch.setattr(triton, "launch", lambda *_: triton.GridLaunch(rows=16, met=16, warps=4))


@pytest.mark.parametrize(("Y", "X"), [(1, 1), (1, 7), (7, 1), (2, 3)])
def test_sizes(Y: int, X: int, launches: list[bool]) -> None:
    assert max(errors(drawn(2, 3, 5, Y, X))) <= 1e-5
    assert launches == [False, True]


@pytest.mark.parametrize("H", [1, 16, 63])
def test_widths(H: int) -> None:
    assert max(errors(drawn(2, 1, H, 3, 2))) <= 1e-5


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize(
    ("B", "H", "Y", "X", "direction"),
    [(2, 3, 17, 3, "top-left"), (1, 3, 33, 2, "bottom-right"), (1, 17, 2, 2, "bottom-left")],
)
def test_bands_and_tiles(B: int, H: int, Y: int, X: int, direction: str) -> None:
    assert max(errors(drawn(B, 2, H, Y, X), direction=direction)) <= 1e-5


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_corners_and_activations(direction: str, nonlinearity: str) -> None:
    assert max(errors(drawn(1, 2, 5, 3, 4), nonlinearity, direction)) <= 1e-5


@pytest.mark.parametrize("nonlinearity", naive.ACTIVATIONS)
def test_nan_stays_nan(nonlinearity: str) -> None:
    x, weight_in, weight_left, weight_top, bias = leaves = drawn(1, 1, 3, 2, 2)
    with torch.no_grad():
        x[0, 0, 0, 1] = torch.nan
    found = grid(x, weight_in, weight_left, weight_top, bias, nonlinearity)
    wanted = naive.grid(x, weight_in.mT, weight_left.mT, weight_top.mT, bias, nonlinearity)
    assert wanted.isnan().any()
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=0, atol=1e-5)
    gradients = (torch.autograd.grad(states[0, :, 0, 1].sum(), leaves) for states in (found, wanted))
    torch.testing.assert_close(*gradients, equal_nan=True, rtol=0, atol=1e-5)


def test_bfloat16() -> None:
    assert max(errors(drawn(1, 2, 7, 3, 4, torch.bfloat16))) <= 2e-2


def test_wide_states_and_lstm_cells_go_without(monkeypatch: pytest.MonkeyPatch, launches: list[bool]) -> None:
    monkeypatch.setattr(recurrence, "WIDEST", 4)
    assert max(errors(drawn(1, 2, 5, 2, 2))) <= 1e-5
    x = drawn(1, 2, 3, 2, 2)[0]
    weight = torch.zeros(15, 3, device=DEVICE)
    grid(x, torch.zeros(15, 2, device=DEVICE), weight, weight, cell="lstm")
    assert launches == []
