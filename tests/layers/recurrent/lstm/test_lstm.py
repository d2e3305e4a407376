"""LSTM is nn.LSTM: the same calls, parameters and numbers, and three more kinds of dropout."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from porism.layers import LSTM
from porism.layers.recurrent.lstm import lstm, naive
from porism.layers.recurrent.lstm.cost import cost
from porism.testing.gradients import relative_error

T, B, D, H = 5, 4, 3, 6
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"proj_size": 2, "num_layers": 2},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)

pytestmark = pytest.mark.usefixtures("double")


def twins(options: dict[str, Any], **more: Any) -> tuple[nn.LSTM, LSTM]:
    torch.manual_seed(0)
    peer = nn.LSTM(D, H, **options)
    torch.manual_seed(0)
    layer = LSTM(D, H, **options, **more)
    return peer, layer


def flat(answer: Any) -> list[Tensor]:
    output, (h, c) = answer
    return [output if isinstance(output, Tensor) else output.data, h, c]


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(flat(found), flat(expected), strict=True):
        assert one.shape == other.shape
        assert relative_error(one, other) <= 1e-12


def test_arguments_are_those_of_nn_lstm_in_its_order() -> None:
    names = list(inspect.signature(LSTM).parameters)
    assert names[:10] == [
        "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size",
        "device", "dtype",
    ]  # fmt: skip
    torch.manual_seed(0)
    by_position = LSTM(D, H, 2, False, True, 0.0, True)
    peer, _ = twins({"num_layers": 2, "bias": False, "batch_first": True, "bidirectional": True})
    x = torch.randn(B, T, D)
    assert_same(by_position(x), peer(x))


@each_option
def test_parameters_and_initial_numbers_are_those_of_nn_lstm_both_ways(options: dict[str, Any]) -> None:
    peer, layer = twins(options)
    assert list(peer.state_dict()) == list(layer.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(peer.parameters(), layer.parameters(), strict=True))
    peer.load_state_dict(LSTM(D, H, **options).state_dict(), strict=True)
    layer.load_state_dict(peer.state_dict(), strict=True)
    x = torch.randn(B, T, D)
    assert_same(layer(x), peer(x))


@each_option
@pytest.mark.parametrize("by_layers", [False, True], ids=["kernels", "layers"])
def test_equals_nn_lstm(options: dict[str, Any], by_layers: bool) -> None:
    """Also where its layers are gone through one by one, with masks that drop nothing."""
    if by_layers and "proj_size" in options:
        pytest.skip("refused")
    peer, layer = twins(options, variational=by_layers)
    lengths = torch.tensor([3, 5, 1, 5])
    x = torch.randn(B, T, D) if options.get("batch_first") else torch.randn(T, B, D)
    packed = pack_padded_sequence(x, lengths, bool(options.get("batch_first")), enforce_sorted=False)
    for given in (x, packed, torch.randn(T, D)):
        expected = peer(given)
        assert_same(layer(given), expected)
        hx = torch.randn_like(expected[1][0]), torch.randn_like(expected[1][1])
        assert_same(layer(given, hx), peer(given, hx))


def test_gradients_are_those_of_nn_lstm() -> None:
    peer, layer = twins({"num_layers": 2, "bidirectional": True})
    x = torch.randn(T, B, D, requires_grad=True)
    found, expected = (
        torch.autograd.grad(module(x)[0].sin().sum(), [x, *module.parameters()]) for module in (layer, peer)
    )
    assert max(relative_error(one, other) for one, other in zip(found, expected, strict=True)) <= 1e-12


def test_a_mask_of_the_state_equals_the_loop() -> None:
    shapes = ((T, B, D), (B, H), (B, H), (4 * H, D), (4 * H, H), (4 * H,), (4 * H,))
    x, h, c, weight_ih, weight_hh, bias_ih, bias_hh = (torch.randn(shape) for shape in shapes)
    mask = torch.bernoulli(torch.full((B, H), 0.5)) / 0.5
    y, (last, memory) = lstm(x, (h, c), weight_ih, weight_hh, bias_ih, bias_hh, mask)
    states, memories = naive.lstm(x, h, c, weight_ih.mT, weight_hh.mT, bias_ih + bias_hh, mask)
    assert_same((y, (last, memory)), (states, (states[-1], memories[-1])))
    plain = lstm(x, (h, c), weight_ih, weight_hh, bias_ih, bias_hh)
    states, memories = naive.lstm(x, h, c, weight_ih.mT, weight_hh.mT, bias_ih + bias_hh)
    assert_same(plain, (states, (states[-1], memories[-1])))


@pytest.mark.parametrize("name", ["weight_dropout", "recurrent_dropout", "variational"])
def test_dropout_acts_while_training_only(name: str) -> None:
    options: dict[str, Any] = {name: True if name == "variational" else 0.5}
    peer, layer = twins({"num_layers": 2, "dropout": 0.5}, **options)
    x = torch.randn(T, B, D)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    assert_same(layer.eval()(x), peer.eval()(x))


def test_variational_dropout_is_one_mask_for_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    _, layer = twins({"num_layers": 2, "dropout": 0.5}, variational=True)
    seen: list[Tensor] = []
    kernel = lstm

    def watched(x: Tensor, *rest: Any, **options: Any) -> Any:
        seen.append(x)
        return kernel(x, *rest, **options)

    monkeypatch.setattr("porism.layers.recurrent.lstm.layer.lstm", watched)
    layer(torch.randn(T, B, D))
    dropped = seen[1] == 0
    assert dropped.any()
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 2}], ids=str)
def test_parameters_of_stacks_equal_the_formula(options: dict[str, Any]) -> None:
    _, layer = twins(options)
    formula = cost(**options).at(B=B, T=T, D=D, H=H)
    assert sum(parameter.numel() for parameter in layer.parameters()) == formula["parameters"]
