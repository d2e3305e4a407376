"""Sizes, masks, dropouts and inputs that a layer on Heads cannot follow are refused in one line."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from tests.layers.attention.kinds_of_heads import A, B, E, T, Values, each_kind
from torch import nn

from porism.errors import ShapeError
from porism.layers import Attention
from porism.layers.attention.heads import Heads

pytestmark = pytest.mark.usefixtures("double")


def test_what_a_layer_without_a_square_cannot_give_is_refused() -> None:
    layer, x = Values(E, A), torch.randn(T, B, E)
    assert layer(x)[0].shape == x.shape
    with pytest.raises(
        ShapeError, match="Values never holds all pairs, and need_weights=True asks for them. Leave it out, or take"
    ):
        layer(x, need_weights=True)
    with pytest.raises(ShapeError, match="Values never holds all pairs, and attn_mask asks for them"):
        layer(x, attn_mask=torch.zeros(T, T))
    with pytest.raises(ShapeError, match="Values never holds all pairs, and attn_mask, which is not the causal one,"):
        layer(x, attn_mask=torch.zeros(T, T), is_causal=True)


def test_masks_that_cannot_be_followed_are_refused() -> None:
    layer, x = Attention(E, A), torch.randn(T, 1, E)
    with pytest.raises(ShapeError, match="key_padding_mask adds 0.5, expected -inf for a pad and 0 for a key. Give a"):
        layer(x, key_padding_mask=torch.full((1, T), 0.5))
    with pytest.raises(ShapeError, match="cu_seqlens came with need_weights. Pad the sequences with"):
        layer(x, need_weights=True, cu_seqlens=[0, T])
    with pytest.raises(ShapeError, match=r"key_padding_mask is \(1, 6\), expected \(1, 7\)"):
        layer(x, key_padding_mask=torch.zeros(1, 6).bool())


@each_kind
@pytest.mark.parametrize("dropout", [1.0, -0.1, float("nan"), "0.5", None], ids=repr)
def test_a_dropout_that_is_none_is_refused(build: Callable[..., Heads], dropout: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: dropout is .*\. Give the probability of dropping"):
        build(dropout=dropout)
    layer = build()
    layer.dropout = dropout
    for need_weights in (False, True) if isinstance(layer, Attention) else (False,):
        with pytest.raises(ShapeError, match=r"^attention: dropout_p is .*\. Give the probability of dropping"):
            layer(torch.randn(T, B, E), need_weights=need_weights)


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "kdim", "vdim", "num_kv_heads", "head_dim", "v_head_dim"])
@pytest.mark.parametrize("size", [0, -1, 2.0, True, "2", float("nan"), 10**30, torch.tensor(2)], ids=repr)
def test_sizes_are_whole_numbers(name: str, size: Any) -> None:
    sizes: dict[str, Any] = {"embed_dim": 4, "num_heads": 2, "head_dim": 2, "v_head_dim": 2} | {name: size}
    with pytest.raises(ShapeError, match=rf"^attention: {name} is .*\. Give a whole number from 1 (on|to \d+)\.$"):
        Attention(**sizes)


@each_kind
@pytest.mark.parametrize("part", ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"])
def test_a_part_that_was_never_materialised_is_refused(build: Callable[..., Heads], part: str) -> None:
    layer = build()
    *path, name = part.split(".")
    owner = layer.get_submodule(".".join(path))
    setattr(owner, name, nn.Parameter(getattr(owner, name).to("meta")))
    x = torch.randn(T, B, E)
    for call in (layer, layer.decode):
        with pytest.raises(ShapeError, match=rf"{part} is on meta, query on cpu, expected one device\."):
            call(x)


@each_kind
def test_inputs_on_another_device_or_of_another_kind_are_refused(build: Callable[..., Heads]) -> None:
    layer, x = build(), torch.randn(T, B, E)
    for query, key, value in ((x.to("meta"), x, x), (x, x.to("meta"), x), (x, x, x.to("meta"))):
        with pytest.raises(ShapeError, match=r"is on (meta|cpu), query on (meta|cpu), expected one device\."):
            layer(query, key, value)
    with pytest.raises(ShapeError, match=r"query is torch\.int64, expected one of float32"):
        layer(x.long())
    with pytest.raises(ShapeError, match=r"key is torch\.float32, expected one type|query is torch\.float64, key is"):
        layer(x, x.float(), x)
    with pytest.raises(ShapeError, match=r"query is a ndarray, expected a tensor"):
        layer(x.numpy())  # type: ignore[arg-type]
