"""The kernel of a CPU gives the loss and gradient of the plain code, or says that it cannot."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from porism.layers.readout import linear_cross_entropy
from porism.layers.readout.gradient import gradient
from porism.layers.readout.kernels.cpu import LARGEST_BIAS, ScoreBlocks, fits, forward
from porism.testing.gradients import relative_error

N, H, V = 22, 5, 9
NEEDED = [list(needed) for needed in product([True, False], repeat=3)]


def draw(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    h, weight, bias = (torch.randn(shape, dtype=dtype) for shape in ((N, H), (V, H), (V,)))
    return h, weight, bias, torch.randint(V, (N,))


@pytest.mark.parametrize("needed", NEEDED, ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("pads", [False, True], ids=["all-count", "some-count"])
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no-bias"])
def test_what_is_needed_is_that_of_the_plain_code_and_nothing_else_is_given(
    needed: list[bool], smoothing: float, pads: bool, with_bias: bool
) -> None:
    h, weight, bias, targets = draw()
    given = bias if with_bias else None
    needed = [*needed[:2], needed[2] and with_bias]
    counted = torch.arange(N) % 3 > 0 if pads else None
    done = forward(h, weight, given, targets, counted, smoothing, h.dtype, 8, needed)
    wanted = gradient(h, weight, given, targets, counted, smoothing)
    assert done.rows == N
    kept = targets if counted is None else targets.masked_fill(~counted, -100)
    loss = cross_entropy(h @ weight.mT + (bias if with_bias else 0), kept, label_smoothing=smoothing, reduction="sum")
    assert relative_error(done.loss, loss) <= 1e-13
    for found, part, is_needed in zip(done[2:], wanted, needed, strict=True):
        if is_needed:
            assert part is not None
            assert relative_error(found, part) <= 1e-13
        else:
            assert found.numel() == 0


def too_high(h: Tensor, weight: Tensor, bias: Tensor) -> None:
    weight[:, 0], h[17, 0] = 1, 200


def too_low(h: Tensor, weight: Tensor, bias: Tensor) -> None:
    weight[:, 0], h[17, 0] = 1, -200


def high_bias(h: Tensor, weight: Tensor, bias: Tensor) -> None:
    bias[4] = LARGEST_BIAS + 1


def impossible_word(h: Tensor, weight: Tensor, bias: Tensor) -> None:
    bias[4] = -torch.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("spoil", [too_high, too_low, high_bias, impossible_word])
def test_what_the_kernel_cannot_take_is_taken_another_way(
    spoil: Callable[[Tensor, Tensor, Tensor], None], dtype: torch.dtype
) -> None:
    h, weight, bias, targets = draw(dtype)
    spoil(h, weight, bias)
    targets[targets == 4] = 5
    takes = fits(h, bias, dtype)
    assert takes is (spoil in (too_high, too_low))
    if takes:
        # Rows 0 to 15 are two blocks, row 17 stands in the third.
        assert forward(h, weight, bias, targets, None, 0.0, dtype, 8, [True] * 3).rows == 16
    operands = [part.requires_grad_() for part in (h, weight, bias)]
    loss = linear_cross_entropy(h, weight, targets, linear_bias=bias, batch_chunk_size=8)
    exact = [part.detach().double().requires_grad_() for part in operands]
    wanted = cross_entropy(exact[0] @ exact[1].mT + exact[2], targets)
    tolerance = 100 * torch.finfo(dtype).eps
    assert relative_error(loss.double(), wanted) <= tolerance
    for found, part in zip(torch.autograd.grad(loss, operands), torch.autograd.grad(wanted, exact), strict=True):
        assert relative_error(found.double(), part) <= tolerance


@pytest.mark.parametrize("spoiled", [0, 1, 2], ids=["states", "weight", "bias"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf], ids=str)
def test_a_number_that_is_none_is_seen_in_the_loss(spoiled: int, number: float) -> None:
    operands = draw(torch.float32)
    operands[spoiled].view(-1)[3] = number
    loss = linear_cross_entropy(operands[0], operands[1], operands[3], linear_bias=operands[2])
    assert loss.isnan()


@pytest.mark.parametrize("gap", [0.5, 3.0, 9.0, 15.0])
@pytest.mark.parametrize("level", [-10.0, 0.0, 10.0])
def test_a_sure_word_has_a_loss_above_zero_as_exact_as_its_type(gap: float, level: float) -> None:
    bias = torch.tensor([level, level - gap])
    found = ScoreBlocks(torch.ones(2, 1), bias, 1, [False] * 3).add(torch.ones(1, 1), torch.tensor([0]))
    assert found is not None
    wanted = torch.nn.functional.softplus(torch.tensor(-gap, dtype=torch.float64))
    assert found[0].item() >= 0
    # p[y] is rounded to one part in 2^24, exp before it to a few.
    assert abs(found[0].double().item() - wanted.item()) <= 8 * 2.0**-24


def test_no_loss_is_below_zero_where_products_are_rounded_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `torch.set_float32_matmul_precision("medium")` does on some processors."""
    summed = ScoreBlocks._summed
    monkeypatch.setattr(ScoreBlocks, "_summed", lambda blocks, e: summed(blocks, e) * (1 - 2.0**-8))
    blocks = ScoreBlocks(torch.ones(2, 1), torch.tensor([9.0, -9.0]), 1, [False] * 3)
    found = blocks.add(torch.ones(1, 1), torch.tensor([0]))
    assert found is not None
    assert found[0].item() == 0
