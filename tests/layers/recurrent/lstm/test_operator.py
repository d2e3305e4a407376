"""What the operator around the layer promises: every gradient of nn.LSTM's, changes in place, compiled code."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from porism.layers import LSTM
from porism.layers.recurrent.lstm import functional, lstm
from porism.testing.gradients import relative_error

T, B, D, H = 5, 4, 3, 6

pytestmark = pytest.mark.usefixtures("double")


def operands(bias: bool = True) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((T, B, D), (B, H), (B, H), (4 * H, D), (4 * H, H), (4 * H,), (4 * H,))
    return [torch.randn(shape).requires_grad_() for shape in shapes[: 7 if bias else 5]]


def by_torch(leaves: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    x, h0, c0, *weights = leaves
    y, h, c = torch._VF.lstm(x, (h0[None], c0[None]), weights, len(weights) > 2, 1, 0.0, False, False, False)
    return y, h[0], c[0]


def ours(leaves: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    x, h0, c0, weight_ih, weight_hh, *biases = leaves
    y, (h, c) = lstm(x, (h0, c0), weight_ih, weight_hh, *biases)
    return y, h, c


def total(answers: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([part.sin().sum() for part in answers]).sum()


@pytest.mark.parametrize("bias", [True, False])
def test_first_and_second_derivatives_are_those_of_torch(bias: bool) -> None:
    found = []
    for compute in (ours, by_torch):
        leaves = operands(bias)
        first = torch.autograd.grad(total(compute(leaves)), leaves, create_graph=True)
        second = torch.autograd.grad(torch.cat([part.flatten() for part in first]).cos().sum(), leaves)
        found.append([*first, *second])
    for one, other in zip(*found, strict=True):
        assert relative_error(one, other) <= 1e-10


@pytest.mark.parametrize("given", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_gradients_of_some_answers_alone(given: tuple[int, ...]) -> None:
    found = []
    for compute in (ours, by_torch):
        leaves = operands()
        answers = compute(leaves)
        found.append(torch.autograd.grad(total(tuple(answers[i] for i in given)), leaves))
    for one, other in zip(*found, strict=True):
        assert relative_error(one, other) <= 1e-12


@pytest.mark.parametrize("needs", range(7))
def test_one_gradient_alone(needs: int) -> None:
    leaves = operands()
    expected = torch.autograd.grad(total(ours(leaves)), leaves)[needs]
    alone = [leaf.detach().requires_grad_(i == needs) for i, leaf in enumerate(leaves)]
    (found,) = torch.autograd.grad(total(ours(alone)), alone[needs])
    assert torch.equal(found, expected)


def test_answers_may_be_changed_in_place() -> None:
    leaves = operands()
    expected = torch.autograd.grad(total(tuple(2 * part for part in ours(leaves))), leaves)
    answers = ours(leaves)
    found = torch.autograd.grad(total(tuple(part.mul_(2) for part in answers)), leaves)
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other) <= 1e-12


@pytest.mark.parametrize("train", [True, False])
def test_compiled_code_is_one_graph_with_the_same_numbers(train: bool) -> None:
    torch.manual_seed(0)
    layer = LSTM(D, H, 2, bidirectional=True).train(train)
    x = torch.randn(T, B, D)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for one, other in zip((compiled(x)[0], *compiled(x)[1]), (layer(x)[0], *layer(x)[1]), strict=True):
        assert relative_error(one, other) <= 1e-12
    found = torch.autograd.grad(compiled(x)[0].sin().sum(), list(layer.parameters()))
    expected = torch.autograd.grad(layer(x)[0].sin().sum(), list(layer.parameters()))
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other) <= 1e-12


def test_torch_counts_its_flops() -> None:
    layer, x = LSTM(D, H), torch.randn(T, B, D, requires_grad=True)
    # Without a gradient of the first state torch's own kernels leave out one product.
    first = torch.randn(1, B, H, requires_grad=True), torch.randn(1, B, H)
    with FlopCounterMode(display=False) as counter:
        y, _ = layer(x, first)
        y.sum().backward()
    forward = 8 * T * B * H * (D + H)
    assert counter.get_total_flops() == 3 * forward


def test_torch_checks_of_the_operator_pass() -> None:
    x, h0, c0, weight_ih, weight_hh, bias, _ = operands()
    torch.library.opcheck(functional.OPERATOR, (x, h0, c0, weight_ih, weight_hh, bias, None))


def test_numbers_of_half_precision_have_a_memory_of_float32() -> None:
    layer, x = LSTM(D, H, dtype=torch.bfloat16), torch.randn(50, B, D, dtype=torch.bfloat16)
    exact = nn.LSTM(D, H).double()
    exact.load_state_dict(layer.state_dict())
    found, expected = layer(x), exact(x.double())
    assert found[0].dtype == found[1][1].dtype == torch.bfloat16
    assert relative_error(found[0].double(), expected[0]) <= 2e-2
