"""The scan in one kernel against the loop, in Triton's interpreter where there is no GPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from torch import Tensor

from porism.layers import kernels
from porism.layers.recurrent.elman import elman, naive
from porism.layers.recurrent.elman.functional import states
from porism.testing.gradients import relative_error

needs.triton()
triton: Any = import_module("porism.layers.recurrent.elman.kernels.triton")
scan: Any = import_module("porism.layers.recurrent.kernels.scan")

# Torch tells that a CPU without bfloat16 multiplies it another way.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# T, B, D, H: one of each; two slabs of states; three groups of sequences, which take turns in the interpreter.
SHAPES = [(1, 1, 1, 1), (3, 5, 7, 20), (4, 40, 3, 33)]


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The kernels take the tensors here; and what the kernel was called for: False for forward, True for back."""
    monkeypatch.setattr(kernels, "DEVICES", {DEVICE})
    seen: list[bool] = []
    run = triton._run

    def watched(*args: Any, **options: Any) -> None:
        seen.append(options["back"])
        run(*args, **options)

    monkeypatch.setattr(triton, "_run", watched)
    return seen


def drawn(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    T, B, D, H = shape
    draw = torch.Generator().manual_seed(0)
    shapes = ((T, B, D), (B, H), (H, D), (H, H), (H,))
    # So small that no state comes near to 1, where 1 - h h cancels.
    scales = (0.3, 0.5, D**-0.5, 0.5 * H**-0.5, 0.3)
    parts = [torch.randn(shape, generator=draw) * scale for shape, scale in zip(shapes, scales, strict=True)]
    return [part.to(DEVICE, dtype).requires_grad_() for part in parts]


def errors(leaves: list[Tensor], nonlinearity: str, mask: Tensor | None = None) -> list[float]:
    """Of the states and of every gradient."""
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = by_loop(exact, nonlinearity, mask)
    x, h0, weight_ih, weight_hh, bias = leaves
    found = states(x, h0, weight_ih, weight_hh, bias, nonlinearity, mask)
    dy = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(leaves[0])
    pairs = [(found, expected)]
    pairs += zip(torch.autograd.grad(found, leaves, dy), torch.autograd.grad(expected, exact, dy.double()), strict=True)
    assert all(one.dtype == leaves[0].dtype for one, _ in pairs)
    return [relative_error(one.double(), other) for one, other in pairs]


def by_loop(leaves: list[Tensor], nonlinearity: str, mask: Tensor | None) -> Tensor:
    x, h, weight_ih, weight_hh, bias = leaves
    if mask is None:
        return naive.elman(x, h, weight_ih.mT, weight_hh.mT, bias, nonlinearity)
    y = []
    for x_t in x:
        h = getattr(torch, nonlinearity)(x_t @ weight_ih.mT + (h * mask.double()) @ weight_hh.mT + bias)
        y.append(h)
    return torch.stack(y)


@pytest.mark.sweep(2, each="dtype")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_is_as_near_to_float64_as_the_loop(
    shape: tuple[int, int, int, int],
    nonlinearity: str,
    dtype: torch.dtype,
    launched: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaves = drawn(shape, dtype)
    found = max(errors(leaves, nonlinearity))
    assert launched == [False, True]
    monkeypatch.setattr(kernels, "DEVICES", set())
    # cuDNN rounds to TF32 where float32 is allowed to: the loop does not.
    leaves = [leaf.detach().cpu().requires_grad_() for leaf in leaves]
    # The interpreter cuts off the digits that bfloat16 does not have, where hardware and torch round.
    times = 6 if DEVICE == "cpu" and dtype == torch.bfloat16 else 2
    assert found <= times * max(errors(leaves, nonlinearity)) + 4 * torch.finfo(dtype).eps
    assert launched == [False, True]


@pytest.mark.parametrize("nonlinearity", ["sigmoid", "relu"])
def test_a_mask_of_the_state_is_multiplied_in_both_passes(nonlinearity: str, launched: list[bool]) -> None:
    leaves = drawn(SHAPES[-1])
    mask = 2.0 * (torch.rand(leaves[1].shape, generator=torch.Generator().manual_seed(2)) > 0.5).to(DEVICE)
    assert max(errors(leaves, nonlinearity, mask)) <= 2e-6
    assert launched == [False, True]


def test_any_strides() -> None:
    leaves = drawn(SHAPES[1])
    expected = errors(leaves, "tanh")
    turned = [leaf.detach().mT.contiguous().mT if leaf.dim() > 1 else leaf.detach() for leaf in leaves]
    assert not any(leaf.is_contiguous() for leaf in turned[:4])
    assert max(errors([leaf.requires_grad_() for leaf in turned], "tanh")) <= max(2e-6, *expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_nan_with_the_bits_of_an_empty_number_ends_no_scan(dtype: torch.dtype) -> None:
    x, h0, weight_ih, weight_hh, bias = operands = tuple(part.detach() for part in drawn((3, 2, 4, 20), dtype))
    # Where relu passes on what it gets, and where the first state is given.
    scan.bits(x)[1, 0] = -1
    scan.bits(h0)[1, 3] = -1
    y, _ = elman(x, h0, weight_ih, weight_hh, bias, "relu")
    x, h0, weight_ih, weight_hh, bias = (part.double() for part in operands)
    expected, _ = elman(x, h0, weight_ih, weight_hh, bias, "relu")
    assert torch.equal(y.isnan(), expected.isnan())
    assert y.isnan().any()


def test_products_of_float32_are_exact_unless_torch_allows_tf32() -> None:
    assert scan.precision(torch.float32) == "tf32x3"
    torch.set_float32_matmul_precision("high")
    try:
        assert scan.precision(torch.float32) == "tf32"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert scan.precision(torch.float32) == "tf32x3"


def test_states_that_do_not_fit_on_chip_have_no_launch() -> None:
    # 4,096 of 4,096 weights need more memory than all multiprocessors of any GPU have.
    wide = torch.empty(4096, 4096, device="meta")
    assert scan.plan(16, 4096, 1, 1024, wide.dtype, torch.device(DEVICE)) is None


@pytest.mark.parametrize("B", [1, 16, 17, 64, 1000])
@pytest.mark.parametrize("H", [1, 16, 100, 200])
def test_all_programs_run_at_once(B: int, H: int) -> None:
    device = torch.device(DEVICE)
    found = scan.plan(B, H, 1, H, torch.bfloat16, device)
    assert found is not None
    assert found.programs <= scan._device(device)[0]
    assert found.programs % found.slabs == 0
    assert found.slabs * found.units >= H
    assert scan.WARPS * (found.part + found.rest) >= H


def test_the_second_derivative_goes_through_it() -> None:
    leaves = [leaf.detach().double().requires_grad_() for leaf in drawn((2, 2, 3, 4))]
    single = [leaf.detach().float().requires_grad_() for leaf in leaves]
    found = []
    for parts in (leaves, single):
        x, h0, weight_ih, weight_hh, bias = parts
        y = states(x, h0, weight_ih, weight_hh, bias, "tanh")
        first = torch.autograd.grad(y.sin().sum(), parts, create_graph=True)
        found.append(torch.autograd.grad(torch.cat([part.flatten() for part in first]).cos().sum(), parts))
    for one, other in zip(*found, strict=True):
        assert relative_error(other.double(), one) <= 1e-5
