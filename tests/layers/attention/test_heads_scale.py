"""The scale of a layer: a number, a tensor or a parameter that is learned; anything else is refused."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from tests.layers.attention.kinds_of_heads import B, E, T, each_kind
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import Attention
from porism.layers.attention.heads import Heads

pytestmark = pytest.mark.usefixtures("double")


@each_kind
@pytest.mark.parametrize("start", [0.5, -0.5, 0.0], ids=str)
def test_a_scale_is_learned(build: Callable[..., Heads], start: float) -> None:
    layer = build(scale=nn.Parameter(torch.tensor(start)))
    assert [name for name, _ in layer.named_parameters()].count("scale") == 1
    x, weights = torch.randn(T, B, E), torch.randn(T, B, E)

    def decoded(x: Tensor) -> Tensor:
        first, state = layer.decode(x[:4])
        return torch.cat([first, layer.decode(x[4:], state)[0]])

    calls = [lambda x: layer(x)[0], lambda x: layer(x, is_causal=True)[0], decoded]
    if isinstance(layer, Attention):
        calls += [lambda x: layer(x, need_weights=True)[0], lambda x: layer(x, attn_mask=torch.zeros(T, T))[0]]
    for call in calls:
        assert isinstance(layer.scale, nn.Parameter)
        (found,) = torch.autograd.grad((call(x) * weights).sum(), layer.scale)
        step = 1e-6
        sums = []
        with torch.no_grad():
            for number in (start + step, start - step):
                layer.scale.fill_(number)
                sums.append(float((call(x) * weights).sum()))
            layer.scale.fill_(start)
        assert found == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-6, abs=1e-6)


@each_kind
def test_a_learned_scale_is_copied_saved_and_told(build: Callable[..., Heads]) -> None:
    layer = build(scale=nn.Parameter(torch.tensor(0.5)))
    x = torch.randn(T, B, E)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), build(scale=nn.Parameter(torch.zeros(())))):
        twin.load_state_dict(layer.state_dict())
        assert twin.scale is not layer.scale
        assert torch.equal(twin(x)[0], layer(x)[0])
    assert "scale=Parameter" in repr(layer)
    half = copy.deepcopy(layer).bfloat16()
    assert isinstance(half.scale, nn.Parameter)
    (slope,) = torch.autograd.grad(half(x.bfloat16())[0].float().sum(), half.scale)
    assert slope.dtype == torch.bfloat16
    assert slope.isfinite()


@each_kind
def test_a_scale_that_is_a_tensor_goes_with_the_layer(build: Callable[..., Heads]) -> None:
    layer = build(scale=torch.tensor(0.5))
    assert "scale" not in layer.state_dict()
    assert "scale=Tensor" in repr(layer)
    x, twin = torch.randn(T, B, E), copy.deepcopy(layer)
    assert torch.equal(layer(x)[0], twin(x)[0])
    moved = twin.to("meta").scale
    assert isinstance(moved, Tensor)
    assert moved.is_meta


@each_kind
@pytest.mark.parametrize(
    "scale",
    [
        float("nan"),
        float("inf"),
        "1",
        True,
        torch.ones(2),
        torch.tensor(1),
        torch.tensor(torch.nan),
        nn.Parameter(torch.tensor(torch.inf)),
        torch.tensor(1.0, device="meta"),
    ],
    ids=str,
)
def test_a_scale_that_is_none_is_refused(build: Callable[..., Heads], scale: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: scale is .*, expected "):
        build(scale=scale)
    layer = build()
    layer.scale = scale
    if not isinstance(scale, Tensor) or scale.numel() > 1 or scale.is_meta or not scale.is_floating_point():
        with pytest.raises(ShapeError, match=r"^attention: scale is .*, expected "):
            layer(torch.randn(T, B, E))
