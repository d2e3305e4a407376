"""Operands that no kernel can take are refused by our own error, which names them."""

from typing import Any

import pytest
import torch
from tests.layers.spoiled import SPOILED, each_spoiler
from torch import nn

from porism.errors import ShapeError
from porism.layers import Grid
from porism.layers.recurrent.grid import grid

B, C, H, Y, X = 2, 3, 4, 2, 3
SHAPES = {"input": (B, C, Y, X), "weight_in": (H, C), "weight_left": (H, H), "weight_top": (H, H), "bias": (H,)}


@each_spoiler
@pytest.mark.parametrize("name", SHAPES)
def test_the_functional_form(how: str, name: str) -> None:
    spoil, message = SPOILED[how]
    parts = {part: torch.randn(shape) for part, shape in SHAPES.items()}
    with pytest.raises(ShapeError, match=message) as caught:
        grid(**parts | {name: spoil(parts[name])})
    assert name in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex128], ids=str)
@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_all_operands_of_a_dtype_that_cannot_be(dtype: torch.dtype, cell: str) -> None:
    gates = 5 if cell == "lstm" else 1
    shapes = {name: shape if name == "x" else (gates * shape[0], *shape[1:]) for name, shape in SHAPES.items()}
    parts: dict[str, Any] = {name: torch.ones(shape, dtype=dtype) for name, shape in shapes.items()}
    with pytest.raises(
        ShapeError, match=rf"grid: input is {dtype}, expected one of float32, bfloat16, float16, float64"
    ):
        grid(**parts, cell=cell)


@each_spoiler
def test_the_layer(how: str) -> None:
    spoil, message = SPOILED[how]
    with pytest.raises(ShapeError, match=message):
        Grid(C, H, directions=2)(spoil(torch.randn(B, C, Y, X)))


@pytest.mark.parametrize("name", ["weight_in", "weight_left_bottom_right", "bias"])
def test_a_part_that_was_never_materialised(name: str) -> None:
    layer = Grid(C, H, directions=2, bias=True)
    setattr(layer, name, nn.Parameter(layer.get_parameter(name).to("meta")))
    refusal = r"grid: (weight_in|weight_left|bias) is on meta, input on cpu, expected one device"
    with pytest.raises(ShapeError, match=refusal):
        layer(torch.randn(B, C, Y, X))


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_float64_is_left_alone_by_autocast(cell: str) -> None:
    torch.manual_seed(0)
    layer = Grid(C, H, cell=cell, bias=True, directions=2, dtype=torch.float64)
    x = torch.randn(B, C, Y, X, dtype=torch.float64, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        found = torch.autograd.grad(y.sum(), [x, *layer.parameters()])
    assert y.dtype == torch.float64
    assert torch.equal(y, layer(x))
    wanted = torch.autograd.grad(layer(x).sum(), [x, *layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_float64_does_not_mix_under_autocast_either() -> None:
    x = torch.randn(B, C, Y, X, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ShapeError, match="expected one type"):
        Grid(C, H)(x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_taken(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, x = Grid(C, H, dtype=dtype), torch.randn(B, C, Y, X, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), layer.float()(x.float()), rtol=0, atol=1e-2)


@pytest.mark.parametrize("shape", [(), (4,), (1, 4, 4)], ids=str)
def test_recurrent_weights_that_are_no_matrix(shape: tuple[int, ...]) -> None:
    x, weight_in, weight_top = (torch.randn(SHAPES[name]) for name in ("input", "weight_in", "weight_top"))
    with pytest.raises(ShapeError, match=r"weight_left is \(.*\), expected two dimensions"):
        grid(x, weight_in, torch.randn(shape), weight_top)
