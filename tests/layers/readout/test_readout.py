"""The readout's loss is that of torch's cross-entropy, whatever the block, and holds at the edges of the numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

import porism.layers.readout.functional
from porism.layers import Readout
from porism.layers.readout import linear_cross_entropy
from porism.layers.readout.gradient import LARGEST_SAFE, LEAST_SAFE, accumulate
from porism.layers.readout.kernels.cpu import ScoreBlocks
from porism.testing.gradients import relative_error

N, H, V = 63, 7, 11


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    h, weight, bias = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in ((N, H), (V, H), (V,)))
    return h, weight, bias, torch.randint(V, (N,))


@pytest.mark.parametrize("block", [None, 1, 2, 7, 62, 63, 64])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no-bias"])
def test_every_block_gives_torchs_loss_and_gradient(block: int | None, reduction: str, with_bias: bool) -> None:
    h, weight, bias, targets = draw()
    scores = h @ weight.mT + bias if with_bias else h @ weight.mT
    wanted = cross_entropy(scores, targets, reduction=reduction)
    loss = linear_cross_entropy(
        h, weight, targets, linear_bias=bias if with_bias else None, reduction=reduction, batch_chunk_size=block
    )
    assert relative_error(loss, wanted) <= 1e-12
    learned = (h, weight, bias) if with_bias else (h, weight)
    found = torch.autograd.grad(3 * loss, learned)
    for part, wanted_part in zip(found, torch.autograd.grad(3 * wanted, learned), strict=True):
        assert relative_error(part, wanted_part) <= 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_default_block_holds_few_scores(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words = 6000, 10_000
    taken = []

    def watched(z: Tensor, *args: Any) -> Tensor:
        taken.append(len(z))
        return accumulate(z, *args)

    def watched_on_a_cpu(blocks: ScoreBlocks, h: Tensor, *args: Any) -> Any:
        taken.append(len(h))
        return add(blocks, h, *args)

    add = ScoreBlocks.add
    monkeypatch.setattr(porism.layers.readout.functional, "accumulate", watched)
    monkeypatch.setattr(ScoreBlocks, "add", watched_on_a_cpu)
    h = torch.randn(rows, 1, dtype=dtype, requires_grad=True)
    linear_cross_entropy(h, torch.randn(words, 1, dtype=dtype), torch.zeros(rows, dtype=torch.long))
    assert sum(taken) == rows
    assert max(taken) <= rows // 4
    assert max(taken) - min(taken) < len(taken)


def test_without_gradients_the_loss_is_the_same_and_one_product_is_run() -> None:
    h, weight, bias, targets = draw()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        loss = linear_cross_entropy(h, weight, targets, linear_bias=bias)
    assert counter.get_total_flops() == 2 * N * H * V
    assert not loss.requires_grad
    assert relative_error(loss, linear_cross_entropy(h, weight, targets, linear_bias=bias)) <= 1e-12


def test_the_gradient_can_be_taken_twice_from_one_forward_pass() -> None:
    h, weight, bias, targets = draw()
    loss = linear_cross_entropy(h, weight, targets, linear_bias=bias)
    first = torch.autograd.grad(loss, (h, weight, bias), retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(loss, (h, weight, bias)), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "largest", [0.0, LARGEST_SAFE - 1, LARGEST_SAFE + 1, LEAST_SAFE + 1, LEAST_SAFE - 1, 80.0, -120.0]
)
def test_scores_of_any_level_give_torchs_loss_and_gradient(
    largest: float, smoothing: float, dtype: torch.dtype
) -> None:
    h, weight, bias, targets = (part.detach() for part in draw())
    bias += largest - (h @ weight.mT + bias).max()
    targets[::5] = -100
    exact = [part.requires_grad_() for part in (h, weight, bias)]
    wanted = cross_entropy(exact[0] @ exact[1].mT + exact[2], targets, label_smoothing=smoothing)
    given = [part.detach().to(dtype).requires_grad_() for part in exact]
    loss = linear_cross_entropy(
        given[0], given[1], targets, linear_bias=given[2], label_smoothing=smoothing, batch_chunk_size=16
    )
    # Scores are rounded as they are, however large.
    tolerance = 20 * torch.finfo(dtype).eps * max(1, abs(largest))
    assert relative_error(loss.double(), wanted) <= tolerance
    for part, wanted_part in zip(torch.autograd.grad(loss, given), torch.autograd.grad(wanted, exact), strict=True):
        assert relative_error(part.double(), wanted_part) <= tolerance


@pytest.mark.parametrize("row", [0, 1], ids=["above", "below"])
def test_one_row_beyond_the_safe_scores_is_as_right_as_the_others(row: int) -> None:
    h, weight, bias, targets = draw(torch.float32)
    with torch.no_grad():
        bias.zero_()
        weight[:, 0] = 1
        h[:, 0] = 0
        h[5, 0] = (200.0, -200.0)[row]
    loss = linear_cross_entropy(h, weight, targets, linear_bias=bias)
    wanted = cross_entropy(h @ weight.mT + bias, targets)
    for part, wanted_part in zip(
        torch.autograd.grad(loss, (h, weight, bias)), torch.autograd.grad(wanted, (h, weight, bias)), strict=True
    ):
        assert relative_error(part, wanted_part) <= 1e-5


def test_a_sure_word_has_an_exact_loss_at_any_score() -> None:
    weight = torch.tensor([[LARGEST_SAFE - 1], [LARGEST_SAFE - 11]], requires_grad=True)
    loss = linear_cross_entropy(torch.ones(1, 1), weight, torch.tensor([0]))
    assert loss.item() == pytest.approx(4.5398899e-05, rel=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("score", [300.0, 3e4])
def test_a_word_beyond_belief_has_a_finite_loss(dtype: torch.dtype, score: float) -> None:
    weight = torch.tensor([[score], [0.0]], dtype=dtype, requires_grad=True)
    h, targets = torch.ones(1, 1, dtype=dtype, requires_grad=True), torch.tensor([1])
    loss = linear_cross_entropy(h, weight, targets)
    assert loss.item() == pytest.approx(score)
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.flatten().tolist() == [1.0, -1.0]


def test_targets_of_any_whole_type_and_shape() -> None:
    h, weight, bias, targets = draw()
    wanted = linear_cross_entropy(h, weight, targets, linear_bias=bias)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(linear_cross_entropy(h, weight, targets.to(dtype), linear_bias=bias), wanted)
    assert torch.equal(linear_cross_entropy(h.view(7, 9, H), weight, targets.view(7, 9), linear_bias=bias), wanted)
    assert torch.equal(
        linear_cross_entropy(h[0], weight, targets[0], linear_bias=bias),
        linear_cross_entropy(h[:1], weight, targets[:1], linear_bias=bias),
    )


def test_scores_and_loss_agree() -> None:
    layer = Readout(H, V).double()
    h, targets = torch.randn(3, 2, H, dtype=torch.float64), torch.randint(V, (3, 2))
    assert layer(h).shape == (3, 2, V)
    wanted = cross_entropy(layer(h).flatten(0, 1), targets.flatten())
    assert relative_error(layer.loss(h, targets), wanted) <= 1e-12


def test_a_tied_weight_learns_from_both_ends() -> None:
    shared = nn.Parameter(torch.randn(V, H, dtype=torch.float64))
    before = shared.detach().clone()
    layer = Readout(H, V, weight=shared)
    assert layer.weight is shared
    assert torch.equal(shared, before)
    assert layer.bias is not None
    assert layer.bias.dtype == torch.float64
    words, targets = torch.randint(V, (N,)), torch.randint(V, (N,))
    (found,) = torch.autograd.grad(layer.loss(shared[words], targets), shared)
    (wanted,) = torch.autograd.grad(cross_entropy(shared[words] @ shared.mT + layer.bias, targets), shared)
    assert relative_error(found, wanted) <= 1e-10


def test_weights_start_glorot_uniform_and_the_bias_at_zero() -> None:
    layer = Readout(200, 300)
    limit = (6 / 500) ** 0.5
    assert 0.99 * limit < layer.weight.abs().max() <= limit
    assert layer.bias is not None
    assert not layer.bias.any()


def test_autocast_runs_the_products_in_its_type_and_rounds_the_loss_little() -> None:
    h, weight, bias, targets = draw(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(h, weight, targets, linear_bias=bias, batch_chunk_size=16)
        found = torch.autograd.grad(loss, (h, weight, bias))
    # What the rounded operands and scores give; then only the softmax is rounded, to one part in 2^9.
    rounded = [part.detach().bfloat16().float() for part in (h, weight, bias)]
    scores = (rounded[0] @ rounded[1].mT + rounded[2]).bfloat16().float()
    assert loss.dtype == torch.float32
    assert abs(loss - cross_entropy(scores, targets)).item() <= 2**-9
    exact = torch.autograd.grad(linear_cross_entropy(h, weight, targets, linear_bias=bias), (h, weight, bias))
    for part, wanted in zip(found, exact, strict=True):
        assert part.dtype == torch.float32
        assert relative_error(part, wanted) <= 2e-2


def test_autocast_takes_states_that_are_rounded_already() -> None:
    h, weight, bias, targets = draw(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        low = h.bfloat16().detach().requires_grad_()
        loss = linear_cross_entropy(low, weight, targets, linear_bias=bias)
        (dh,) = torch.autograd.grad(loss, low)
    assert dh.dtype == torch.bfloat16
    assert loss.dtype == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_captures_loss_and_gradient() -> None:
    h, weight, bias, targets = (part.detach().cuda() for part in draw(torch.float32))
    h.requires_grad_()
    wanted = torch.autograd.grad(linear_cross_entropy(h, weight, targets, linear_bias=bias), h)[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (found,) = torch.autograd.grad(
            linear_cross_entropy(h, weight, targets, linear_bias=bias, batch_chunk_size=16), h
        )
    graph.replay()
    torch.testing.assert_close(found, wanted)
