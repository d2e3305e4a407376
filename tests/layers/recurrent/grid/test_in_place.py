"""Answers changed in place: the gradients are those of the same change made out of place, as after nn.Conv2d."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from porism.layers import Grid, kernels
from porism.testing.gradients import relative_error

C, H = 2, 3
# In place, and the same out of place.
CHANGES: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Tensor]]] = {
    "mul_": (lambda y: y.mul_(2), lambda y: y * 2),
    "relu": (nn.ReLU(inplace=True), torch.relu),
    "dropout": (nn.Dropout(0.5, inplace=True), lambda y: nn.functional.dropout(y, 0.5)),
    "a part": (lambda y: y[0].fill_(3), lambda y: torch.cat([torch.full_like(y[:1], 3), y[1:]])),
    "behind autograd": (lambda y: y.detach().add_(1), lambda y: y + 1),
}
OPTIONS: list[dict[str, Any]] = [
    {"nonlinearity": "tanh"},
    {"nonlinearity": "relu", "bias": True},
    {"cell": "lstm"},
    {"directions": ("bottom-left",)},
    {"directions": 2},
    {"directions": 4, "merge_mode": "concat", "nonlinearity": "tanh"},
]
ONE_KERNEL: dict[str, Any] = {"cpp.simdlen": 1, "cpp_cache_precompile_headers": False}
"""Inductor compiles torch's headers ahead, for many kernels, and tries whether those for vectors compile here: with one
small kernel that is two thirds of its time."""
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def made(dtype: torch.dtype = torch.float64, **options: Any) -> tuple[Grid, Tensor]:
    torch.manual_seed(0)
    return Grid(C, H, **options, dtype=dtype), torch.randn(2, C, 3, 4, dtype=dtype, requires_grad=True)


def gradients(layer: Grid, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
    return torch.autograd.grad((y.sin() * weights).sum(), [x, *layer.parameters()], retain_graph=True)


def assert_same(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    assert max(relative_error(one, other) for one, other in zip(found, wanted, strict=True)) <= 1e-12


@each_option
@pytest.mark.parametrize("change", CHANGES)
def test_equals_out_of_place(options: dict[str, Any], change: str) -> None:
    layer, x = made(**options)
    in_place, out_of_place = CHANGES[change]
    y = layer(x)
    torch.manual_seed(1)
    in_place(y)
    first = gradients(layer, x, y)
    torch.manual_seed(1)
    wanted_y = out_of_place(layer(x))
    assert torch.equal(y, wanted_y)
    wanted = gradients(layer, x, wanted_y)
    assert_same(first, wanted)
    assert_same(gradients(layer, x, y), wanted)


def test_without_a_batch() -> None:
    layer, batch = made()
    y = layer(batch[0])
    y.mul_(2)
    assert_same(gradients(layer, batch, y), gradients(layer, batch, layer(batch[0]) * 2))


def test_a_change_between_two_backward_passes() -> None:
    layer, x = made(cell="lstm")
    y = layer(x)
    used = y * 3
    wanted = gradients(layer, x, used)
    y.zero_()
    assert_same(gradients(layer, x, used), wanted)


@pytest.mark.usefixtures("triton_runs")
def test_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(kernels, "DEVICES", {device})
    layer, x = made(torch.float32, nonlinearity="tanh", bias=True)
    layer, x = layer.to(device), x.detach().to(device).requires_grad_()
    y, plain = layer(x), layer(x)
    y.mul_(2)
    found, wanted = (torch.autograd.grad(states.square().sum(), [x, *layer.parameters()]) for states in (y, plain * 2))
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


# torch.compile itself calls what torch deprecates.
@pytest.mark.sweep(1, each="options")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("inside", [True, False], ids=["in the graph", "after it"])
@pytest.mark.parametrize("options", [{"nonlinearity": "tanh"}, {"cell": "lstm", "directions": ("top-right",)}], ids=str)
def test_when_compiled(options: dict[str, Any], inside: bool) -> None:
    torch.compiler.reset()
    layer, x = made(**options)

    def changed(layer: Any, x: Tensor) -> Tensor:
        y: Tensor = layer(x).mul_(2)
        return y

    if inside:
        y = torch.compile(changed, fullgraph=True, backend="aot_eager")(layer, x)
    else:
        y = changed(torch.compile(layer, fullgraph=True, backend="aot_eager"), x)
    assert_same(gradients(layer, x, y), gradients(layer, x, layer(x) * 2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_after_inductor_which_leaves_copies_out() -> None:
    torch.compiler.reset()
    layer, x = made(nonlinearity="tanh")
    y = torch.compile(layer, fullgraph=True, options=ONE_KERNEL)(x)
    y.mul_(2)
    assert_same(gradients(layer, x, y), gradients(layer, x, layer(x) * 2))
