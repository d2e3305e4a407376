"""The scans in one kernel each against the loop, in Triton's interpreter where there is no GPU."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from torch import Tensor

from porism.layers import LSTM, kernels
from porism.layers.recurrent.lstm import naive
from porism.layers.recurrent.lstm.functional import OPERATOR
from porism.testing.gradients import relative_error

needs.triton()
triton: Any = import_module("porism.layers.recurrent.lstm.kernels.triton")
scan: Any = import_module("porism.layers.recurrent.kernels.scan")

# Torch tells that a CPU without bfloat16 multiplies it another way.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# T, B, D, H: one of each; two slabs of states; three groups of sequences, which take turns in the interpreter.
SHAPES = [(1, 1, 1, 1), (3, 5, 7, 20), (3, 40, 3, 33)]


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The kernels take the tensors here; and what was launched: False for forward, True for back."""
    monkeypatch.setattr(kernels, "DEVICES", {DEVICE})
    seen: list[bool] = []
    found = triton._found

    def watched(*args: Any, **options: Any) -> Any:
        seen.append(options["back"])
        return found(*args, **options)

    monkeypatch.setattr(triton, "_found", watched)
    return seen


def drawn(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    T, B, D, H = shape
    draw = torch.Generator().manual_seed(0)
    shapes = ((T, B, D), (B, H), (B, H), (4 * H, D), (4 * H, H), (4 * H,))
    scales = (0.3, 0.5, 0.5, D**-0.5, 0.5 * H**-0.5, 0.3)
    parts = [torch.randn(shape, generator=draw) * scale for shape, scale in zip(shapes, scales, strict=True)]
    return [part.to(DEVICE, dtype).requires_grad_() for part in parts]


def errors(leaves: list[Tensor], mask: Tensor | None = None) -> list[float]:
    """Of the states, the last memory, and of every gradient."""
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    x, h0, c0, weight_ih, weight_hh, bias = exact
    states, memories = naive.lstm(x, h0, c0, weight_ih.mT, weight_hh.mT, bias, None if mask is None else mask.double())
    expected = (states, memories[-1])
    x, h0, c0, weight_ih, weight_hh, bias = leaves
    # The operator itself: where there are other kernels too, the function may choose them.
    h, c, *_ = OPERATOR(x, h0, c0, weight_ih, weight_hh, bias, mask)
    y = h[1:]
    draw = torch.Generator().manual_seed(1)
    given = [torch.randn(part.shape, generator=draw).to(x) for part in expected]
    gradients = torch.autograd.grad((y, c), leaves, given)
    exact_gradients = torch.autograd.grad(expected, exact, [part.double() for part in given])
    pairs = [*zip((y, c, *gradients), (*expected, *exact_gradients), strict=True)]
    assert all(one.dtype == x.dtype for one, _ in pairs)
    return [relative_error(one.double(), other) for one, other in pairs]


@pytest.fixture(params=["all gates", "by gate"])
def way_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whether a program multiplies all gates, or one while four exchange their sums."""
    monkeypatch.setattr(scan, "EXCHANGE", -1e9 if request.param == "by gate" else 1e9)
    scan.plan.cache_clear()
    yield request.param
    scan.plan.cache_clear()


@pytest.mark.sweep(6)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_is_as_near_to_float64_as_the_loop(
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    way_back: str,
    launched: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaves = drawn(shape, dtype)
    B, H = leaves[1].shape
    assert (triton.launch(B, H, dtype, leaves[1].device, back=True).together > 1) == (way_back == "by gate")
    found = max(errors(leaves))
    assert launched == [False, True]
    monkeypatch.setattr(kernels, "DEVICES", set())
    leaves = [leaf.detach().cpu().requires_grad_() for leaf in leaves]
    # The interpreter cuts off the digits that bfloat16 does not have, where hardware and torch round.
    times = 6 if DEVICE == "cpu" and dtype == torch.bfloat16 else 2
    assert found <= times * max(errors(leaves)) + 4 * torch.finfo(dtype).eps
    assert launched == [False, True]


@pytest.mark.parametrize("has_mask", [False, True])
def test_a_warp_multiplies_two_parts_one_after_the_other(
    has_mask: bool, launched: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if DEVICE == "cpu":  # room for so many states
        monkeypatch.setattr(scan, "_device", lambda device: (16, 2**18))
        scan.plan.cache_clear()
    try:
        leaves = drawn((3, 4, 3, 136), torch.float16)
        found = [triton.launch(4, 136, leaves[4].dtype, leaves[4].device, back) for back in (False, True)]
        assert [launch.rest > 0 for launch in found] == [True, True]
        mask = 2.0 * (torch.rand(leaves[1].shape, generator=torch.Generator().manual_seed(2)) > 0.5)
        assert max(errors(leaves, mask.to(leaves[1]) if has_mask else None)) <= 4e-3
        assert launched == [False, True]
    finally:
        scan.plan.cache_clear()


def test_a_mask_of_the_state_is_multiplied_in_both_passes(way_back: str, launched: list[bool]) -> None:
    leaves = drawn(SHAPES[-1])
    mask = 2.0 * (torch.rand(leaves[1].shape, generator=torch.Generator().manual_seed(2)) > 0.5).to(DEVICE)
    assert max(errors(leaves, mask)) <= 2e-6
    assert launched == [False, True]


def test_any_strides() -> None:
    leaves = drawn(SHAPES[1])
    turned = [leaf.detach().mT.contiguous().mT if leaf.dim() > 1 else leaf.detach() for leaf in leaves]
    assert not any(leaf.is_contiguous() for leaf in turned[:5])
    assert max(errors([leaf.requires_grad_() for leaf in turned])) <= 2e-6


def test_a_nan_with_the_bits_of_an_empty_number_ends_no_scan() -> None:
    leaves = [part.detach() for part in drawn((3, 2, 4, 20), torch.bfloat16)]
    scan.bits(leaves[1])[1, 3] = -1
    x, h0, c0, weight_ih, weight_hh, bias = leaves
    h, *_ = OPERATOR(x, h0, c0, weight_ih, weight_hh, bias, None)
    assert h[1:, 1].isnan().all()
    assert not h[1:, 0].isnan().any()


@pytest.mark.parametrize("back", [False, True])
def test_states_that_do_not_fit_on_chip_have_no_launch(back: bool) -> None:
    width, length = (1, 4 * 4096) if back else (4, 4096)
    assert scan.plan(16, 4096, width, length, torch.bfloat16, torch.device(DEVICE)) is None


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_layers_of_two_bytes_take_the_scans(options: dict[str, Any], autocast: bool, launched: list[bool]) -> None:
    torch.manual_seed(0)
    dtype = torch.float32 if autocast else torch.bfloat16
    layer = LSTM(24, 40, device=DEVICE, dtype=dtype, **options)
    exact = torch.nn.LSTM(24, 40, device=DEVICE, dtype=torch.float64, **options)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(7, 5, 24, device=DEVICE, dtype=dtype)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
        found, (h, c) = layer(x)
    expected, (h_expected, c_expected) = exact(x.double())
    for one, other in ((found, expected), (h, h_expected), (c, c_expected)):
        assert relative_error(one.double(), other) <= 2e-2
    calls = layer.num_layers * (1 + layer.bidirectional)
    assert launched == [False] * calls
    found.float().square().sum().backward()
    expected.square().sum().backward()
    for name, weight in exact.named_parameters():
        grad = layer.get_parameter(name).grad
        assert grad is not None
        assert weight.grad is not None
        assert relative_error(grad.double(), weight.grad) <= 3e-2, name
    assert launched == [False] * calls + [True] * calls
