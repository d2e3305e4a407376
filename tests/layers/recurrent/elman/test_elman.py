"""Elman is nn.RNN with a sigmoid to choose: the same calls, the same shapes, the same numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from porism.errors import ShapeError
from porism.layers import Elman
from porism.layers.recurrent.elman import elman, naive
from porism.layers.recurrent.elman.cost import cost
from porism.testing.gradients import relative_error

D, H = 7, 5
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"nonlinearity": "relu"},
    {"num_layers": 3},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


pytestmark = pytest.mark.usefixtures("double")


def twins(options: dict[str, Any]) -> tuple[nn.RNN, Elman]:
    rnn = nn.RNN(D, H, **options)
    layer = Elman(D, H, **{"nonlinearity": "tanh", **options})
    layer.load_state_dict(rnn.state_dict(), strict=True)
    return rnn, layer


def assert_same(found: Tensor, wanted: Tensor) -> None:
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) <= 1e-12


@each_option
@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (7, 2), (1, 63)], ids=str)
def test_equals_rnn(options: dict[str, Any], shape: tuple[int, int]) -> None:
    rnn, layer = twins(options)
    x = torch.randn(*shape, D, requires_grad=True)
    y, h = layer(x)
    wanted_y, wanted_h = rnn(x)
    assert_same(y, wanted_y)
    assert_same(h, wanted_h)
    (dx,) = torch.autograd.grad(y.sum() + h.sin().sum(), x)
    (wanted_dx,) = torch.autograd.grad(wanted_y.sum() + wanted_h.sin().sum(), x)
    assert_same(dx, wanted_dx)


@each_option
def test_equals_rnn_from_a_state(options: dict[str, Any]) -> None:
    rnn, layer = twins(options)
    x, h0 = torch.randn(2, 7, D), torch.randn_like(rnn(torch.zeros(2, 7, D))[1])
    for found, wanted in zip(layer(x, h0), rnn(x, h0), strict=True):
        assert_same(found, wanted)


@each_option
def test_equals_rnn_without_a_batch(options: dict[str, Any]) -> None:
    rnn, layer = twins(options)
    x, h0 = torch.randn(7, D), torch.randn_like(rnn(torch.zeros(7, D))[1])
    for found, wanted in zip(layer(x, h0), rnn(x, h0), strict=True):
        assert_same(found, wanted)


@each_option
@pytest.mark.parametrize("lengths", [[7, 7, 3, 1], [3, 7, 1, 7], [1, 1, 1, 7], [1, 1, 1, 1]], ids=str)
def test_equals_rnn_on_packed_sequences(options: dict[str, Any], lengths: list[int]) -> None:
    rnn, layer = twins(options)
    sorted_already = lengths == sorted(lengths, reverse=True)
    data = torch.randn(max(lengths), 4, D, requires_grad=True)
    packed = pack_padded_sequence(data, torch.tensor(lengths), enforce_sorted=sorted_already)
    h0 = torch.randn_like(rnn(packed)[1])
    (y, h), (wanted_y, wanted_h) = layer(packed, h0), rnn(packed, h0)
    assert isinstance(y, PackedSequence)
    assert_same(y.data, wanted_y.data)
    assert_same(pad_packed_sequence(y)[0], pad_packed_sequence(wanted_y)[0])
    assert_same(h, wanted_h)
    (dx,) = torch.autograd.grad(y.data.sin().sum() + h.sin().sum(), data, retain_graph=True)
    (wanted_dx,) = torch.autograd.grad(wanted_y.data.sin().sum() + wanted_h.sin().sum(), data)
    assert_same(dx, wanted_dx)


@each_option
@pytest.mark.parametrize("with_state", [True, False], ids=["state", "no-state"])
def test_equals_rnn_on_an_empty_batch(options: dict[str, Any], with_state: bool) -> None:
    rnn, layer = twins(options)
    x = torch.zeros((0, 7, D) if options.get("batch_first") else (7, 0, D), requires_grad=True)
    hx = torch.zeros_like(rnn(x)[1], requires_grad=True) if with_state else None
    (y, h), (wanted_y, wanted_h) = layer(x, hx), rnn(x, hx)
    assert (y.shape, h.shape) == (wanted_y.shape, wanted_h.shape)
    (y.sum() + h.sum()).backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert hx is None or (hx.grad is not None and hx.grad.shape == hx.shape)
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_nan_goes_where_it_goes_in_rnn(nonlinearity: str) -> None:
    rnn, layer = twins({"nonlinearity": nonlinearity})
    x = torch.randn(5, 3, D)
    x[2, 1, 0] = torch.nan
    x.requires_grad_()
    (y, h), (wanted_y, wanted_h) = layer(x), rnn(x)
    assert wanted_y.isnan().any()
    torch.testing.assert_close((y, h), (wanted_y, wanted_h), equal_nan=True)
    weights = "weight_ih_l0", "weight_hh_l0", "bias_ih_l0"
    found = torch.autograd.grad(y[:3].sum(), [x, *map(layer.get_parameter, weights)])
    wanted = torch.autograd.grad(wanted_y[:3].sum(), [x, *map(rnn.get_parameter, weights)])
    torch.testing.assert_close(found, wanted, equal_nan=True)


def test_relu_is_flat_at_zero() -> None:
    rnn, layer = twins({"nonlinearity": "relu"})
    for module in (rnn, layer):
        for parameter in module.parameters():
            nn.init.zeros_(parameter)
    x = torch.randn(5, 3, D, requires_grad=True)
    found, wanted = (torch.autograd.grad(module(x)[0].sum(), [*module.parameters()]) for module in (layer, rnn))
    assert not any(part.any() for part in (*found, *wanted))


def test_a_packed_batch_of_another_width_is_refused() -> None:
    packed = pack_padded_sequence(torch.zeros(3, 2, D + 1), torch.tensor([3, 1]))
    with pytest.raises(ShapeError, match=r"width 8, expected width 7"):
        Elman(D, H)(packed)


def test_a_nested_rnn_loads_and_the_given_state_dict_is_left_alone() -> None:
    state = nn.Sequential(nn.RNN(D, H)).state_dict()
    names = list(state)
    model = nn.Sequential(Elman(D, H))
    model.load_state_dict(state, strict=True)
    assert list(state) == names
    assert torch.equal(model.state_dict()["0.bias_ih_l0"], state["0.bias_ih_l0"] + state["0.bias_hh_l0"])
    assert list(model.state_dict()) == ["0.weight_ih_l0", "0.weight_hh_l0", "0.bias_ih_l0"]


@pytest.mark.parametrize("name", ["bias_hh_l0", "bias_hh_l1", "bias_hh_l0_reverse"])
def test_half_of_a_bias_is_reported_and_not_loaded(name: str) -> None:
    rnn, layer = twins({"num_layers": 2, "bidirectional": True})
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    half = {name: rnn.state_dict()[name]}
    missing, unexpected = layer.load_state_dict(half, strict=False)
    # nn.RNN misses the same, and has a place for the second bias itself.
    assert missing == [key for key in rnn.load_state_dict(half, strict=False).missing_keys if "bias_hh" not in key]
    assert unexpected == [name]
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())
    with pytest.raises(RuntimeError, match=rf'Unexpected key\(s\) in state_dict: "{name}"'):
        layer.load_state_dict(half, strict=True)


def test_biases_of_two_sizes_are_not_added() -> None:
    state = nn.RNN(D, H).state_dict() | {"bias_hh_l0": torch.zeros(1)}
    for module in (nn.RNN(D, H), Elman(D, H)):
        with pytest.raises(RuntimeError, match="size mismatch for bias_hh_l0"):
            module.load_state_dict(state, strict=False)


def test_biases_load_under_any_name_of_the_layer() -> None:
    model = nn.ModuleDict({"bias_hh_layer": Elman(D, H)})
    state = nn.ModuleDict({"bias_hh_layer": nn.RNN(D, H)}).state_dict()
    model.load_state_dict(state, strict=True)
    wanted = state["bias_hh_layer.bias_ih_l0"] + state["bias_hh_layer.bias_hh_l0"]
    assert torch.equal(model.state_dict()["bias_hh_layer.bias_ih_l0"], wanted)


def test_weights_start_glorot_uniform_and_biases_at_zero() -> None:
    layer = Elman(300, 200)
    for name, parameter in layer.named_parameters():
        if name.startswith("bias"):
            assert not parameter.any()
        else:
            limit = (6 / sum(parameter.shape)) ** 0.5
            assert 0.99 * limit < parameter.abs().max() <= limit


def test_dropout_acts_between_layers_in_training_only() -> None:
    layer = Elman(D, H, num_layers=2, dropout=0.5)
    x = torch.randn(7, 2, D)
    (y, h), (again, h_again) = layer(x), layer(x)
    assert not torch.equal(y, again)
    assert torch.equal(h[0], h_again[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_dropout_without_a_place_to_act_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match="dropout acts between layers, and there is one only"):
        Elman(D, H, dropout=0.5)


@each_option
def test_cost_of_stacks_equals_the_count(options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name not in ("nonlinearity", "batch_first")}
    layer, x = Elman(D, H, **options), torch.randn(3, 2, D, requires_grad=True)
    formula = cost(**options).at(B=2, T=3, D=D, H=H)
    assert sum(parameter.numel() for parameter in layer.parameters()) == formula["parameters"]
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        # What index operations keep is no number of the model.
        if tensor.is_floating_point():
            kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        answer = layer(x)
    for parameter in layer.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert answer[0].requires_grad
    assert sum(kept.values()) == formula["saved"]


@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh", "relu"])
def test_autocast_rounds_the_input_product_and_nothing_that_is_fed_back(nonlinearity: str) -> None:
    layer = Elman(D, H, nonlinearity=nonlinearity, dtype=torch.float32)
    x = torch.randn(3, 2, D, dtype=torch.float32)
    weight_ih, weight_hh, bias = layer.parameters()
    with torch.autocast("cpu", torch.bfloat16):
        y, h = layer(x)
        y.square().sum().backward()
    assert y.dtype == h.dtype == torch.float32
    rounded = torch.nn.functional.linear(x.bfloat16(), weight_ih.bfloat16(), bias.bfloat16()).float()
    wanted, _ = elman(rounded, rounded.new_zeros(2, H), rounded.new_ones(H).diag(), weight_hh, None, nonlinearity)
    assert torch.equal(y, wanted)
    exact = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    for parameter, gradient in zip(layer.parameters(), exact, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
        assert (parameter.grad - gradient).abs().max() < 2**-6 * gradient.abs().max()


def test_the_functional_form_names_the_part_that_does_not_fit() -> None:
    x, h0, w, u = torch.zeros(3, 2, D), torch.zeros(2, H), torch.zeros(H, D), torch.zeros(H, H)
    with pytest.raises(ShapeError, match=r"hx is \(1, 5\), expected \(2, 5\) for input \(3, 2, 7\)\. Reshape hx\."):
        elman(x, h0[:1], w, u)
    with pytest.raises(ShapeError, match=r"weight_ih is \(7, 5\), expected \(5, 7\)"):
        elman(x, h0, w.mT, u)
    with pytest.raises(ShapeError, match=r"bias is \(7,\), expected \(5,\)"):
        elman(x, h0, w, u, torch.zeros(D))
    with pytest.raises(ShapeError, match=r"input is \(2, 7\), expected \(T, B, D\) with T from 1 on"):
        elman(x[0], h0, w, u)


def test_the_last_state_carries_on_where_the_first_part_ended() -> None:
    layer, x = Elman(D, H), torch.randn(7, 2, D)
    first, h = layer(x[:3])
    second, last = layer(x[3:], h)
    whole, wanted_last = layer(x)
    assert_same(torch.cat([first, second]), whole)
    assert_same(last, wanted_last)
    weight_ih, weight_hh, bias = layer.parameters()
    assert_same(whole, naive.elman(x, torch.zeros(2, H), weight_ih.mT, weight_hh.mT, bias))
