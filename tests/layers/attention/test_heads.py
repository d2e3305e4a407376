"""Attention is nn.MultiheadAttention: the same calls, the same weights, the same numbers."""

from typing import Any

import pytest
import torch
from tests.layers.attention.kinds_of_heads import PADDING, A, B, E, S, T, Values, assert_same
from torch import nn

from porism.layers import Attention

OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"kdim": 5},
    {"vdim": 4, "batch_first": True},
    {"kdim": 5, "vdim": 4, "bias": False},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)

pytestmark = pytest.mark.usefixtures("double")


def twins(options: dict[str, Any], dtype: torch.dtype = torch.float64) -> tuple[nn.MultiheadAttention, Attention]:
    theirs = nn.MultiheadAttention(E, A, **options)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)  # biases too: zeros would hide them
    ours = Attention(E, A, **options)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs.to(dtype), ours.to(dtype)


def inputs(options: dict[str, Any], unbatched: bool = False, dtype: torch.dtype = torch.float64) -> list[Any]:
    lengths = [(T, E), (S, options.get("kdim", E)), (S, options.get("vdim", E))]
    batch_first = options.get("batch_first")
    shapes = [(n, w) if unbatched else (B, n, w) if batch_first else (n, B, w) for n, w in lengths]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@each_option
@pytest.mark.parametrize("unbatched", [False, True], ids=["batch", "no batch"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=["float64", "float32"]
)
def test_equals_multihead_attention(
    options: dict[str, Any], unbatched: bool, dtype: torch.dtype, tolerance: float
) -> None:
    theirs, ours = twins(options, dtype)
    operands = inputs(options, unbatched, dtype)
    query, key, value = operands
    found, wanted = (layer(query, key, value, None, False)[0] for layer in (ours, theirs))
    assert_same(found, wanted, tolerance)
    gradients = [torch.autograd.grad(answer.square().sum(), operands) for answer in (found, wanted)]
    for found, wanted in zip(*gradients, strict=True):
        assert_same(found, wanted, tolerance)


@pytest.mark.parametrize("unbatched", [False, True], ids=["batch", "no batch"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
@pytest.mark.parametrize("mask", ["none", "bool", "float", "each head", "padding", "bool and padding"])
def test_masks_are_those_of_multihead_attention(mask: str, need_weights: bool, unbatched: bool) -> None:
    theirs, ours = twins({})
    hidden = torch.rand(T, S) < 0.4
    hidden[:, 0] = False  # nn.MultiheadAttention has NaN where a query sees nothing
    masks = {
        "bool": hidden,
        "float": torch.randn(T, S).masked_fill(hidden, -torch.inf),
        "each head": torch.randn(A if unbatched else B * A, T, S),
        "bool and padding": hidden,
    }
    named: dict[str, Any] = {"attn_mask": masks.get(mask)}
    if "padding" in mask:
        named["key_padding_mask"] = PADDING[0] if unbatched else PADDING
    for average in (True, False):
        operands = inputs({}, unbatched)
        named |= {"need_weights": need_weights, "average_attn_weights": average}
        (found, found_weights), (wanted, wanted_weights) = ours(*operands, **named), theirs(*operands, **named)
        assert_same(found, wanted)
        if need_weights:
            assert_same(found_weights, wanted_weights)
        else:
            assert found_weights is None


def test_causal_with_and_without_the_mask_beside_it() -> None:
    theirs, ours = twins({})
    x = torch.randn(T, B, E)
    mask = nn.Transformer.generate_square_subsequent_mask(T)
    wanted, weights = theirs(x, x, x, attn_mask=mask, is_causal=True)
    assert_same(ours(x, is_causal=True)[0], wanted)
    assert_same(ours(x, attn_mask=mask, is_causal=True)[0], wanted)
    assert_same(ours(x, is_causal=True, need_weights=True)[1], weights)


@each_option
def test_the_same_seed_gives_the_same_weights(options: dict[str, Any]) -> None:
    states = []
    for kind in (Attention, nn.MultiheadAttention):
        torch.manual_seed(5)
        states.append(kind(E, A, **options).state_dict())
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_takes_the_place_inside_a_transformer(training: bool, padded: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, 2, dim_feedforward=7, dropout=0.0, batch_first=True).train(training)
    x, padding = torch.randn(B, S, E), PADDING if padded else None
    wanted = layer(x, src_key_padding_mask=padding)
    attention = Attention(E, 2, batch_first=True)
    attention.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = attention  # type: ignore[assignment]
    found = layer.train(training)(x, src_key_padding_mask=padding)
    # On the way through its own kernel, torch answers 0 on pads.
    seen = torch.ones(B, S).bool() if padding is None or training else ~padding
    assert_same(found[seen], wanted[seen])


def test_a_transformer_does_not_take_the_weights_past_the_layer() -> None:
    # Without gradients torch would run softmax attention of 2 heads on these weights, whatever layer has them.
    layer = nn.TransformerEncoderLayer(E, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    layer.self_attn = Values(E, 2, batch_first=True)  # type: ignore[assignment]
    x = torch.randn(B, S, E)
    wanted = layer(x)
    with torch.no_grad():
        assert_same(layer.eval()(x), wanted)


def test_a_query_without_a_key_gives_zero_and_no_gradient() -> None:
    layer = Attention(E, A, out_proj=False, batch_first=True)
    x = torch.randn(B, S, E, requires_grad=True)
    padding = torch.tensor([[True] * S, [False] * S])
    for need_weights in (False, True):
        y, weights = layer(x, key_padding_mask=padding, need_weights=need_weights)
        assert not y[0].any()
        assert y[1].all()
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert not dx[0].any()
        assert weights is None or not weights[0].any()
