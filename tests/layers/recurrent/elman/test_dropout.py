"""Dropout between layers, of recurrent weights and of the state that is fed back."""

from typing import Any

import pytest
import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers import Elman
from porism.layers.recurrent.elman.functional import states
from porism.layers.recurrent.elman.naive import ACTIVATIONS
from porism.testing.gradients import relative_error

T, B, D, H = 5, 3, 4, 6

pytestmark = pytest.mark.usefixtures("double")


def by_steps(x: Tensor, h: Tensor, I: Tensor, H: Tensor, b: Tensor, mask: Tensor, act: str) -> Tensor:  # noqa: E741
    answers = []
    for x_t in x:
        h = ACTIVATIONS[act](x_t @ I.mT + (h * mask) @ H.mT + b)
        answers.append(h)
    return torch.stack(answers)


@pytest.mark.parametrize("nonlinearity", ACTIVATIONS)
def test_a_mask_of_the_state_equals_the_steps_with_its_gradients(nonlinearity: str) -> None:
    shapes = ((T, B, D), (B, H), (H, D), (H, H), (H,))
    operands = [torch.randn(shape, requires_grad=True) for shape in shapes]
    mask = torch.bernoulli(torch.full((B, H), 0.5)) / 0.5
    x, h0, weight_ih, weight_hh, bias = operands
    found = states(x, h0, weight_ih, weight_hh, bias, nonlinearity, mask)
    expected = by_steps(x, h0, weight_ih, weight_hh, bias, mask, nonlinearity)
    assert relative_error(found, expected) <= 1e-12
    dy = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad(found, operands, dy), torch.autograd.grad(expected, operands, dy), strict=True
    ):
        assert relative_error(one, other) <= 1e-10


def test_recurrent_dropout_draws_one_mask_for_all_steps() -> None:
    """With zero input weights and a large recurrent diagonal a unit that is dropped once stays at act(0)."""
    layer = Elman(D, H, nonlinearity="relu", recurrent_dropout=0.5)
    with torch.no_grad():
        layer.get_parameter("weight_ih_l0").zero_()
        layer.get_parameter("weight_hh_l0").copy_(torch.eye(H))
    y, _ = layer(torch.zeros(T, B, D), torch.ones(1, B, H))
    powers = 2.0 ** torch.arange(1, T + 1)[:, None, None]
    kept = y[0] != 0
    assert 0 < kept.sum() < B * H
    assert torch.equal(y, kept * powers)


def test_variational_dropout_between_layers_is_one_mask_for_all_steps() -> None:
    layer = Elman(D, H, 2, nonlinearity="relu", dropout=0.5, variational=True)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(torch.eye(H) if name == "weight_ih_l1" else torch.zeros_like(parameter))
        layer.get_parameter("bias_ih_l0").fill_(1.0)
    y, _ = layer(torch.zeros(T, B, D))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(y, y[:1].expand_as(y))
    layer.variational = False
    y, _ = layer(torch.zeros(T, B, D))
    assert not torch.equal(y, y[:1].expand_as(y))


def test_weight_dropout_drops_recurrent_weights() -> None:
    layer = Elman(D, H, nonlinearity="relu", weight_dropout=0.5)
    with torch.no_grad():
        layer.get_parameter("weight_ih_l0").zero_()
        layer.get_parameter("weight_hh_l0").copy_(torch.eye(H))
    y, _ = layer(torch.zeros(T, 1, D), torch.ones(1, 1, H))
    assert set(y[0].unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("name", ["weight_dropout", "recurrent_dropout", "variational"])
def test_evaluation_drops_nothing(name: str) -> None:
    options: dict[str, Any] = {"dropout": 0.5, name: True if name == "variational" else 0.5}
    layer, x = Elman(D, H, 2, **options), torch.randn(T, B, D)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    plain = Elman(D, H, 2)
    plain.load_state_dict(layer.state_dict(), strict=True)
    assert torch.equal(layer.eval()(x)[0], plain(x)[0])


@pytest.mark.parametrize("name", ["weight_dropout", "recurrent_dropout"])
def test_what_is_no_probability_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: 1.0}
    with pytest.raises(ShapeError, match=rf"elman: {name} is 1\.0\. Give the probability"):
        Elman(D, H, **options)
