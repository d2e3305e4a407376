"""Estimators and steps with vectors of lower precision, held against float64."""

import pytest
import torch
from torch import Tensor

from porism.layers.skipgram import SkipGram, sampled_loss
from porism.layers.skipgram.estimators import ESTIMATORS
from porism.layers.skipgram.gradient import summed_by_row
from porism.layers.skipgram.noise import Noise

D, V, M = 4, 8, 6
FLOAT32 = torch.finfo(torch.float32).eps
LEAST_FLOAT16 = 2.0**-24

each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def sure_pairs(B: int, score: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """v, U, j, k and q: word 0 scores `score`, the others 0, exact in every type; contexts are 0 and 1 by turns."""
    draw = torch.Generator().manual_seed(0)
    U = torch.zeros(V, D)
    U[0] = score / D
    noise = Noise.of_frequencies(torch.arange(1, V + 1))
    return torch.ones(B, D), U, torch.arange(B) % 2, noise.draw((B, M), draw), noise.probabilities


def gradients(
    v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor, estimator: str, reduction: str
) -> tuple[Tensor, tuple[Tensor, ...]]:
    v, U = v.detach().requires_grad_(), U.detach().requires_grad_()
    loss = sampled_loss(v, U, j, k, q, estimator, reduction)
    return loss.detach(), torch.autograd.grad(loss, (v, U))


@pytest.mark.sweep(16)
@each_dtype
@each_estimator
@pytest.mark.parametrize("score", [8.0, 10.0, 18.0, 30.0])
def test_a_sure_prediction(estimator: str, dtype: torch.dtype, score: float) -> None:
    v, U, j, k, q = sure_pairs(7, score)
    loss, found = gradients(v.to(dtype), U.to(dtype), j, k, q, estimator, "mean")
    exact, wanted = gradients(v.double(), U.double(), j, k, q, estimator, "mean")
    eps = torch.finfo(dtype).eps
    assert loss.dtype == dtype
    assert abs(loss.item() - exact.item()) <= eps * abs(exact.item()) + 16 * FLOAT32 * (1 + score)
    # Each term is a coefficient, at most 1 / q, times a number of v or U; float32 knows its logarithm so well.
    terms = 4 * FLOAT32 * (1 + score) / q.min().item() * max(1, score / D)
    for part, wanted_part in zip(found, wanted, strict=True):
        assert part.dtype == dtype
        assert ((part.double() - wanted_part).abs() <= eps * wanted_part.abs() + terms + LEAST_FLOAT16).all()


def test_a_well_predicted_context_is_still_learned_from() -> None:
    """By the softmax over the samples: 1 - p of a context of score 10 is 3e-4, and was 0 in bfloat16."""
    v, U, j, k, q = sure_pairs(1, 10.0)
    _, (dv, _) = gradients(v.bfloat16(), U.bfloat16(), j, k.clamp_min(1), q, "sampled-softmax", "sum")
    _, (wanted, _) = gradients(v.double(), U.double(), j, k.clamp_min(1), q, "sampled-softmax", "sum")
    assert wanted.abs().max() > 0
    assert torch.allclose(dv.double(), wanted, rtol=2**-7, atol=0)


@each_dtype
@each_estimator
def test_a_mean_that_the_type_holds_though_not_the_sum(estimator: str, dtype: torch.dtype) -> None:
    v, U, j, k, q = sure_pairs(20_000, 10.0)
    loss, found = gradients(v.to(dtype), U.to(dtype), j, k, q, estimator, "mean")
    exact, wanted = gradients(v.double(), U.double(), j, k, q, estimator, "mean")
    assert loss.item() == pytest.approx(exact.item(), rel=2 * torch.finfo(dtype).eps)
    # Sums over 20,000 pairs in float32, one number after the other.
    tolerance = torch.finfo(dtype).eps * wanted[1].abs().max()
    assert ((found[1].double() - wanted[1]).abs() <= tolerance).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@each_estimator
def test_a_step_sums_what_a_row_gets_before_it_rounds(estimator: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = SkipGram(3, D, estimator, negative=2, dtype=dtype)
    torch.nn.init.uniform_(ours.weight, 0.5, 1.0)
    torch.nn.init.uniform_(ours.context_weight, 0.5, 1.0)
    exact = SkipGram(3, D, estimator, negative=2, dtype=torch.float64)
    exact.load_state_dict(ours.state_dict())
    before = exact.context_weight.detach().clone()
    # All push the same way, each by less than bfloat16 can tell.
    words, contexts, samples = torch.randint(3, (4096,)), torch.zeros(4096).long(), torch.randint(1, 3, (4096, 2))
    loss = ours.sgd_step(words, contexts, 1e-4, samples)
    assert loss.dtype == dtype
    assert loss.item() == pytest.approx(exact.sgd_step(words, contexts, 1e-4, samples).item(), rel=1e-2)
    # The change is rounded once, and so is what it is added to; in float32 each of 4096 changes is.
    eps = torch.finfo(dtype).eps
    for now, wanted in ((ours.weight, exact.weight), (ours.context_weight, exact.context_weight)):
        assert ((now.double() - wanted).abs() <= max(eps, 4096 * FLOAT32 / 4) * (1 + wanted.abs())).all()
    assert (exact.context_weight - before).abs().max() > 0.05


@each_estimator
def test_autocast_changes_nothing(estimator: str) -> None:
    """Its few products are not worth it, and a step has no backward pass that would give float32 back."""
    torch.manual_seed(0)
    words, contexts, samples = torch.randint(V, (7,)), torch.randint(V, (7,)), torch.randint(V, (7, M))
    ours, theirs = (SkipGram(V, D, estimator, negative=M) for _ in range(2))
    torch.nn.init.normal_(ours.context_weight)
    theirs.load_state_dict(ours.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        found = ours(words, contexts, samples), ours.sgd_step(words, contexts, 0.1, samples)
    wanted = theirs(words, contexts, samples), theirs.sgd_step(words, contexts, 0.1, samples)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.context_weight, theirs.context_weight)


def test_autocast_takes_vectors_that_are_rounded_already() -> None:
    v, U, j, k, q = sure_pairs(7, 10.0)
    low, high = v.bfloat16().requires_grad_(), U.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = sampled_loss(low, high, j, k, q, "nce")
    dv, dU = torch.autograd.grad(loss, (low, high))
    assert (loss.dtype, dv.dtype, dU.dtype) == (torch.float32, torch.bfloat16, torch.float32)
    assert loss.item() == pytest.approx(sampled_loss(v, U, j, k, q, "nce").item())


@pytest.mark.parametrize("n", [1, 2, 63])
def test_changes_are_summed_by_row(n: int) -> None:
    torch.manual_seed(n)
    rows, changes = torch.randint(7, (n,)), torch.randn(n, 3, dtype=torch.float64)
    wanted = torch.zeros(7, 3, dtype=torch.float64).index_add_(0, rows, changes)
    reached, sums = summed_by_row(rows, changes)
    assert torch.allclose(torch.zeros_like(wanted).index_add_(0, reached, sums), wanted, rtol=1e-14)
    real = reached[: len(rows.unique())]
    assert torch.equal(real, rows.unique())
    assert not sums[len(real) :].any()
