"""Answers changed in place: the gradients are those of the same change made out of place, as after torch's layers."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from porism.layers import Elman
from porism.layers.recurrent.elman import elman
from porism.testing.gradients import relative_error

D, H = 3, 4
Pair = tuple[Tensor, Tensor]
Change = tuple[Callable[[Tensor, Tensor], Any], Callable[[Tensor, Tensor], Pair]]
# In place, and the same out of place; y comes as the layer gives it.
CHANGES: dict[str, Change] = {
    "y.mul_": (lambda y, h: y.mul_(2), lambda y, h: (y * 2, h)),
    "h.zero_": (lambda y, h: h.zero_(), lambda y, h: (y, h * 0)),
    "both": (lambda y, h: (y.mul_(2), h.add_(1).mul_(3)), lambda y, h: (y * 2, (h + 1) * 3)),
    "relu": (lambda y, h: nn.ReLU(inplace=True)(y), lambda y, h: (y.relu(), h)),
    "dropout": (lambda y, h: nn.Dropout(0.5, inplace=True)(y), lambda y, h: (nn.functional.dropout(y, 0.5), h)),
    "a part": (lambda y, h: y[1].fill_(3), lambda y, h: (torch.cat([y[:1], torch.full_like(y[1:2], 3), y[2:]]), h)),
    "a view": (lambda y, h: y.unsqueeze(0).neg_(), lambda y, h: (-y, h)),
    "behind autograd": (lambda y, h: y.detach().add_(1), lambda y, h: (y + 1, h)),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"nonlinearity": "relu", "bias": False},
    {"num_layers": 3, "nonlinearity": "tanh"},
    {"bidirectional": True},
    {"num_layers": 2, "batch_first": True},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def made(**options: Any) -> tuple[Elman, Tensor]:
    torch.manual_seed(0)
    return Elman(D, H, **options, dtype=torch.float64), torch.randn(5, 2, D, dtype=torch.float64, requires_grad=True)


def gradients(layer: Elman, x: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).view(y.shape)
    loss = (y.sin() * weights).sum() + h.cos().sum()
    return torch.autograd.grad(loss, [x, *layer.parameters()], retain_graph=True)


def assert_same(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    assert max(relative_error(one, other) for one, other in zip(found, wanted, strict=True)) <= 1e-12


@each_option
@pytest.mark.parametrize("change", CHANGES)
def test_equals_out_of_place(options: dict[str, Any], change: str) -> None:
    layer, x = made(**options)
    in_place, out_of_place = CHANGES[change]
    y, h = layer(x)
    torch.manual_seed(1)
    in_place(y, h)
    first = gradients(layer, x, y, h)
    torch.manual_seed(1)
    wanted_y, wanted_h = out_of_place(*layer(x))
    assert torch.equal(y, wanted_y)
    assert torch.equal(h, wanted_h)
    wanted = gradients(layer, x, wanted_y, wanted_h)
    assert_same(first, wanted)
    assert_same(gradients(layer, x, y, h), wanted)


def test_without_a_batch() -> None:
    layer, batch = made()
    x = batch[:, 0]
    y, h = layer(x)
    y.mul_(2)
    assert_same(gradients(layer, batch, y, h), gradients(layer, batch, layer(x)[0] * 2, layer(x)[1]))


def test_a_change_between_two_backward_passes() -> None:
    layer, x = made()
    y, h = layer(x)
    wanted = gradients(layer, x, h, h)
    assert_same(gradients(layer, x, h, h), wanted)
    y.zero_()
    assert_same(gradients(layer, x, h, h), wanted)


def test_y_and_h_of_the_functional_form_do_not_share_memory() -> None:
    layer, x = made()
    weight_ih, weight_hh, bias = layer.parameters()
    y, h = elman(x, x.new_zeros(2, H), weight_ih, weight_hh, bias)
    before = y.detach().clone()
    h.zero_()
    assert torch.equal(y, before)


def test_the_first_state_may_be_changed_in_place_too() -> None:
    layer, x = made()
    hx = torch.rand(1, 2, H, dtype=torch.float64)
    wanted = gradients(layer, x, *layer(x, hx.clone()))
    y, h = layer(x, hx)
    hx.copy_(h.detach())
    assert_same(gradients(layer, x, y, h), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_under_autocast_and_in_lower_precision(dtype: torch.dtype) -> None:
    layer, x = made()
    layer, x = layer.to(dtype), x.detach().to(dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
        (y, h), (wanted_y, wanted_h) = layer(x), layer(x)
        y.mul_(2)
    found, wanted = gradients(layer, x, y, h), gradients(layer, x, wanted_y * 2, wanted_h)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


# torch.compile itself calls what torch deprecates.
@pytest.mark.sweep(1, each="options")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("inside", [True, False], ids=["in the graph", "after it"])
@pytest.mark.parametrize("options", [{"nonlinearity": "tanh"}, {"num_layers": 2, "batch_first": True}], ids=str)
def test_when_compiled(options: dict[str, Any], inside: bool) -> None:
    torch.compiler.reset()
    layer, x = made(**options)

    def changed(layer: Any, x: Tensor) -> Pair:
        y, h = layer(x)
        return y.mul_(2), h.add_(1)

    if inside:
        y, h = torch.compile(changed, fullgraph=True, backend="aot_eager")(layer, x)
    else:
        y, h = changed(torch.compile(layer, fullgraph=True, backend="aot_eager"), x)
    plain_y, plain_h = layer(x)
    assert_same(gradients(layer, x, y, h), gradients(layer, x, plain_y * 2, plain_h + 1))


@pytest.mark.sweep(0)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_after_inductor_which_leaves_copies_out() -> None:
    torch.compiler.reset()
    layer, x = made(nonlinearity="tanh")
    x = x.detach()[:2].requires_grad_()
    y, h = torch.compile(layer, fullgraph=True)(x)
    y.mul_(2)
    plain_y, plain_h = layer(x)
    assert_same(gradients(layer, x, y, h), gradients(layer, x, plain_y * 2, plain_h))
