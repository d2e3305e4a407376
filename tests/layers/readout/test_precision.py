"""The loss of the readout in lower precision, and its gradient, held against float64.

Errors are measured in units of the terms that cancel: of dU = sum of a^T h, with a = p - onehot(y), these are
(p + onehot(y))^T |h|.
"""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

import porism.layers.readout.functional
import porism.layers.readout.gradient
from porism.layers.readout import linear_cross_entropy

H, V = 4, 10
LOGITS = (8.0, 10.0, 18.0, 30.0)
FLOAT32 = torch.finfo(torch.float32).eps
LEAST_FLOAT16 = 2.0**-24

# What torch says, once a process, of a CPU without products of its own for bfloat16.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
autocast_or_not = pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "operands"])
each_reduction = pytest.mark.parametrize("reduction", ["mean", "sum"])


Operands = tuple[Tensor, Tensor, Tensor, Tensor]


class Exact(NamedTuple):
    """The loss, its gradients by h, U and b, and the size of the terms of each, all in float64."""

    loss: Tensor
    gradients: tuple[Tensor, ...]
    terms: tuple[Tensor, ...]


def sure_of_word_0(N: int, logit: float, right: bool) -> Operands:
    """h, U, b and y with the scores (logit, 0, 0, ...), exact in every type; word 0 is right, or word 1."""
    weight = torch.zeros(V, H)
    weight[0] = logit / H
    return torch.ones(N, H), weight, torch.zeros(V), torch.full((N,), 0 if right else 1)


def drawn(N: int, size: float) -> Operands:
    draw = torch.Generator().manual_seed(N)
    h, weight, bias = (torch.randn(shape, generator=draw) for shape in ((N, H), (V, H), (V,)))
    return h, size * weight, bias, torch.randint(V, (N,), generator=draw)


def exact(h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, reduction: str) -> Exact:
    parts = [part.detach().double().requires_grad_() for part in (h, weight, bias)]
    loss = cross_entropy(parts[0] @ parts[1].mT + parts[2], targets, reduction=reduction)
    with torch.no_grad():
        weights = torch.softmax(parts[0] @ parts[1].mT + parts[2], 1) + one_hot(targets, len(weight))
        terms = (weights @ parts[1].abs(), weights.mT @ parts[0].abs(), weights.sum(0))
    share = 1 / len(h) if reduction == "mean" else 1.0
    return Exact(loss.detach(), torch.autograd.grad(loss, parts), tuple(share * part for part in terms))


def check(operands: Operands, dtype: torch.dtype, autocast: bool, reduction: str, scale: float = 1) -> None:
    *parts, targets = operands
    # Rounded already, so that only what the function does is measured.
    given = [part.to(dtype).to(torch.float32 if autocast else dtype).requires_grad_() for part in parts]
    h, weight, bias = given
    with torch.autocast("cpu", dtype, enabled=autocast):
        loss = linear_cross_entropy(h, weight, targets, linear_bias=bias, reduction=reduction)
        with torch.no_grad():
            evaluated = linear_cross_entropy(h, weight, targets, linear_bias=bias, reduction=reduction)
    wanted = exact(h, weight, bias, targets, reduction)
    rows = len(targets) if reduction == "sum" else 1
    eps = torch.finfo(dtype).eps
    logit = (h.double() @ weight.double().mT).abs().max().item()
    # A product is rounded to the type, by eps / 2 of a score at most. What is exact in the type stays exact.
    score_error = 0.0 if h.eq(1).all() else eps * logit
    assert abs(loss.item() - wanted.loss.item()) <= rows * (score_error + 4 * FLOAT32 * (1 + logit))
    assert abs(loss.item() - evaluated.item()) <= rows * 4 * FLOAT32 * (1 + logit)
    found = torch.autograd.grad(scale * loss, given)
    for part, given_part, wanted_part, terms in zip(found, given, wanted.gradients, wanted.terms, strict=True):
        assert part.dtype == given_part.dtype
        tolerance = (2 * eps + 2 * score_error) * wanted_part.abs() + (2 * score_error + 8 * FLOAT32) * terms
        # In float16 a is multiplied by 2^15 for the products, and gradients of its own type are as they are.
        least = LEAST_FLOAT16 if part.dtype is torch.float16 else LEAST_FLOAT16 / 2**15 * rows
        assert ((part.double() / scale - wanted_part).abs() <= tolerance + least).all()


@pytest.mark.sweep(16)
@each_dtype
@autocast_or_not
@each_reduction
@pytest.mark.parametrize("N", [1, 7, 4096])
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_a_sure_prediction(dtype: torch.dtype, autocast: bool, reduction: str, N: int, right: bool) -> None:
    for logit in LOGITS:
        check(sure_of_word_0(N, logit, right), dtype, autocast, reduction)


@each_dtype
@autocast_or_not
@each_reduction
@pytest.mark.parametrize("N", [1, 7, 4096])
def test_any_prediction(dtype: torch.dtype, autocast: bool, reduction: str, N: int) -> None:
    for size in (0.1, 1.0, 4.0):
        check(drawn(N, size), dtype, autocast, reduction)


def test_a_well_predicted_word_is_still_learned_from_under_autocast() -> None:
    """As torch's autocast has it, which takes the cross-entropy in float32."""
    h, weight, _, targets = sure_of_word_0(8, 10.0, right=True)
    weight.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(h, weight, targets)
        theirs = cross_entropy(h @ weight.mT, targets)
    assert loss.item() == pytest.approx(4.085e-4, rel=1e-3)
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-3)
    (found,), (wanted,) = torch.autograd.grad(loss, weight), torch.autograd.grad(theirs, weight)
    assert found[0, 0].item() == pytest.approx(-4.083e-4, rel=2**-7)
    assert torch.allclose(found, wanted, rtol=2**-6, atol=0)


@each_dtype
@autocast_or_not
def test_what_a_row_teaches_sums_to_nothing(dtype: torch.dtype, autocast: bool) -> None:
    h, weight, bias, targets = sure_of_word_0(8, 10.0, right=True)
    h, weight, bias = (part.to(torch.float32 if autocast else dtype) for part in (h, weight, bias))
    with torch.autocast("cpu", dtype, enabled=autocast):
        loss = linear_cross_entropy(h, weight.requires_grad_(), targets, linear_bias=bias.requires_grad_())
    dweight, dbias = (part.double() for part in torch.autograd.grad(loss, (weight, bias)))
    for part in (dweight, dbias[:, None]):
        assert (part.sum(0).abs() <= torch.finfo(dtype).eps * part.abs().sum(0)).all()


@autocast_or_not
@pytest.mark.parametrize("logit", [18.0, 100.0, 3e4])
def test_a_word_beyond_belief_in_float16(autocast: bool, logit: float) -> None:
    weight = torch.tensor([[logit], [0.0]], dtype=torch.float32 if autocast else torch.float16, requires_grad=True)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        loss = linear_cross_entropy(torch.ones(1, 1, dtype=weight.dtype), weight, torch.tensor([1]))
    assert loss.item() == pytest.approx(logit)
    (found,) = torch.autograd.grad(loss, weight)
    assert found.flatten().tolist() == pytest.approx([1.0, -1.0], abs=1e-7)


@autocast_or_not
@pytest.mark.parametrize("N", [4096, 100_000])
@pytest.mark.parametrize("state", [40.0, 6e4])
def test_a_mean_that_float16_holds_though_not_the_sum(autocast: bool, N: int, state: float) -> None:
    dtype = torch.float32 if autocast else torch.float16
    h = torch.full((N, H), state, dtype=dtype)
    weight = torch.zeros(2, H, dtype=dtype, requires_grad=True)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        loss = linear_cross_entropy(h, weight, torch.zeros(N, dtype=torch.long))
    (found,) = torch.autograd.grad(loss, weight)
    assert torch.allclose(found.float(), torch.tensor([[-state / 2], [state / 2]]), rtol=1e-3)


@autocast_or_not
def test_what_is_rare_is_not_lost_among_many_rows_in_float16(autocast: bool) -> None:
    """1 / N of a probability of 1e-5 or less: below the least float16 before it is summed."""
    check(sure_of_word_0(100_000, 12.0, right=False), torch.float16, autocast, "mean")
    check(sure_of_word_0(100_000, 12.0, right=True), torch.float16, autocast, "mean")


@autocast_or_not
def test_a_loss_scale_saves_what_float16_would_lose(autocast: bool) -> None:
    """As a GradScaler does it: gradients come multiplied, and nothing was lost before."""
    operands = sure_of_word_0(256, 12.0, right=True)
    check(operands, torch.float16, autocast, "mean", scale=2.0**16)
    h, weight, _, targets = (part.half() if part.is_floating_point() else part for part in operands)
    h.requires_grad_()
    (found,) = torch.autograd.grad(2.0**16 * linear_cross_entropy(h, weight, targets), h)
    wanted = exact(h, weight, torch.zeros(V), targets, "mean").gradients[0]
    assert torch.allclose(found.double() / 2**16, wanted, rtol=2e-2, atol=0)


@each_reduction
def test_products_of_float16_that_answer_in_float32(reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on a GPU, with the product of a CPU: a is rounded to float16, and its small numbers stay."""
    monkeypatch.setattr(porism.layers.readout.functional, "product_dtype", lambda dtype, device: dtype)
    monkeypatch.setattr(porism.layers.readout.gradient, "_product", lambda a, b, out=None: a.float() @ b.float())
    for logit in LOGITS:
        check(sure_of_word_0(4096, logit, right=True), torch.float16, True, reduction)
        check(sure_of_word_0(4096, logit, right=False), torch.float16, True, reduction)
    check(drawn(4096, 1.0), torch.float16, True, reduction)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_dtype
@pytest.mark.parametrize("logit", LOGITS)
def test_many_rows_on_a_gpu(dtype: torch.dtype, logit: float) -> None:
    h, weight, bias, targets = (part.cuda() for part in sure_of_word_0(100_000, logit, right=True))
    h.mul_(32)
    weight.div_(32).requires_grad_()
    with torch.autocast("cuda", dtype):
        loss = linear_cross_entropy(h, weight, targets, linear_bias=bias)
    wanted = exact(h, weight, bias, targets, "mean")
    (found,) = torch.autograd.grad(loss, weight)
    assert abs(loss.item() - wanted.loss.item()) <= 4 * FLOAT32
    tolerance = 2 * torch.finfo(dtype).eps * wanted.gradients[1].abs() + 8 * FLOAT32 * wanted.terms[1]
    if dtype == torch.float16:
        # Half of the smallest number of float16, in units of 2^-15.
        tolerance = tolerance + 2.0**-40 * h.abs().mean().double()
    assert ((found.double() - wanted.gradients[1]).abs() <= tolerance).all()
