"""Operands that no kernel can take are refused by our own error, which names them."""

import pytest
import torch
from tests.layers.spoiled import SPOILED, each_spoiler
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from porism.errors import ShapeError
from porism.layers import Elman
from porism.layers.recurrent.elman import elman

T, B, D, H = 3, 2, 4, 5
SHAPES = {"input": (T, B, D), "hx": (B, H), "weight_ih": (H, D), "weight_hh": (H, H), "bias": (H,)}


@each_spoiler
@pytest.mark.parametrize("name", SHAPES)
def test_the_functional_form(how: str, name: str) -> None:
    spoil, message = SPOILED[how]
    parts = {part: torch.randn(shape) for part, shape in SHAPES.items()}
    with pytest.raises(ShapeError, match=message) as caught:
        elman(**parts | {name: spoil(parts[name])})
    assert name in str(caught.value)


@each_spoiler
@pytest.mark.parametrize("name", ["input", "hx"])
def test_the_layer(how: str, name: str) -> None:
    spoil, message = SPOILED[how]
    given = {"input": torch.randn(T, B, D), "hx": torch.randn(1, B, H)}
    with pytest.raises(ShapeError, match=message):
        Elman(D, H)(**given | {name: spoil(given[name])})


@pytest.mark.parametrize("name", ["weight_ih_l1", "weight_hh_l0", "bias_ih_l0"])
def test_a_part_that_was_never_materialised(name: str) -> None:
    layer = Elman(D, H, 2)
    setattr(layer, name, nn.Parameter(layer.get_parameter(name).to("meta")))
    with pytest.raises(
        ShapeError, match=r"elman: (weight_ih|weight_hh|bias) is on meta, input on cpu, expected one device"
    ):
        layer(torch.randn(T, B, D))


@pytest.mark.parametrize("how", ["integers", "complex", "meta", "float64"])
@pytest.mark.parametrize("name", ["input", "hx"])
def test_packed_sequences(how: str, name: str) -> None:
    spoil, message = SPOILED[how]
    x, hx = torch.randn(T, B, D), torch.randn(1, B, H)
    packed = pack_padded_sequence(x, torch.tensor([2, 3]), enforce_sorted=False)
    if name == "input":
        packed = PackedSequence(spoil(packed.data), *packed[1:])
    with pytest.raises(ShapeError, match=message):
        Elman(D, H)(packed, spoil(hx) if name == "hx" else hx)


def test_a_packed_batch_whose_rows_and_sizes_disagree() -> None:
    layer, rows = Elman(D, H), torch.randn(6, D)
    for sizes, sum_of_sizes in (([2, 1], 3), ([2, 4], 6), ([4, 4], 8)):
        with pytest.raises(
            ShapeError, match=rf"6 rows, with batch_sizes that add up to {sum_of_sizes}, expected 6, and"
        ):
            layer(PackedSequence(rows, torch.tensor(sizes)))
    with pytest.raises(ShapeError, match="0 rows, with batch_sizes that add up to 0"):
        layer(PackedSequence(rows[:0], torch.tensor([], dtype=torch.long)))
    with pytest.raises(ShapeError, match=r"input is packed, \(3, 2, 4\), expected \(rows, D\)"):
        layer(PackedSequence(rows.view(3, 2, D), torch.tensor([2, 1])))


def test_float64_does_not_mix_under_autocast_either() -> None:
    x = torch.randn(T, B, D, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ShapeError, match="expected one type"):
        Elman(D, H)(x)
    with torch.autocast("cpu", torch.bfloat16):
        layer = Elman(D, H, 2, dtype=torch.float64)
        y, h = layer(x)
    assert y.dtype == h.dtype == torch.float64
    assert torch.equal(y, layer(x)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_taken(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = Elman(D, H, dtype=dtype)
    x = torch.randn(T, B, D, dtype=dtype)
    y, _ = layer(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), layer.float()(x.float())[0], rtol=0, atol=2e-2)


@pytest.mark.parametrize("shape", [(), (5,), (1, 5, 5)], ids=str)
def test_recurrent_weights_that_are_no_matrix(shape: tuple[int, ...]) -> None:
    parts = {part: torch.randn(size) for part, size in SHAPES.items()}
    with pytest.raises(ShapeError, match=r"weight_hh is \(.*\), expected \(H, H\)\. Reshape weight_hh\."):
        elman(parts["input"], parts["hx"], parts["weight_ih"], torch.randn(shape))
