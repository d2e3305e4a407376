"""Torch's own calls, argument by argument in torch's order, get torch's answers."""

from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention

from porism.errors import ShapeError
from porism.layers import (
    Attention,
    AutoAttention,
    HybridAttention,
    Pattern,
    TaylorAttention,
    WindowAttention,
    hybrid_attention,
    hybrid_decode,
    softmax_attention,
    softmax_decode,
    taylor_attention,
    taylor_decode,
    window_attention,
    window_decode,
)
from porism.layers.attention.auto import attention

E, A, B, T, S = 12, 3, 2, 7, 5
MASKS = {
    "none": None,
    "bool": torch.rand(T, S, generator=torch.Generator().manual_seed(0)) < 0.7,
    "each text": torch.rand(B, 1, T, S, generator=torch.Generator().manual_seed(1)) < 0.7,
    "numbers": torch.randn(B, A, T, S, generator=torch.Generator().manual_seed(2), dtype=torch.float64),
}
for some in ("bool", "each text"):
    MASKS[some][..., 0] = True  # type: ignore[index]  # torch gives NaN for a query without keys


def draw(length: int = S) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(B, A, n, 4, dtype=torch.float64) for n in (T, length, length))  # type: ignore[return-value]


@pytest.mark.parametrize("function", [softmax_attention, attention])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_positional_call_of_torch_s_function_is_answered_alike(function: Any, mask: Tensor | None) -> None:
    q, k, v = draw()
    torch.testing.assert_close(function(q, k, v, mask, 0.0, False), scaled_dot_product_attention(q, k, v, mask))
    torch.testing.assert_close(
        function(q, k, v, mask, 0.0, False, scale=0.3, enable_gqa=False),
        scaled_dot_product_attention(q, k, v, mask, 0.0, False, scale=0.3),
    )


@pytest.mark.parametrize("length", [S, T, 11])
def test_causal_is_from_the_top_left_as_torch_has_it(length: int) -> None:
    q, k, v = draw(length)
    for function in (softmax_attention, attention):
        torch.testing.assert_close(
            function(q, k, v, None, 0.0, True), scaled_dot_product_attention(q, k, v, None, 0.0, True)
        )


def test_masks_of_pairs_are_refused_where_pairs_are_never_held() -> None:
    q, k, v = draw()
    mask = torch.ones(T, S, dtype=torch.bool)
    calls: tuple[Any, ...] = (
        lambda: window_attention(q, k, v, mask, window_size=3),
        lambda: taylor_attention(q, k, v, mask),
        lambda: hybrid_attention(q, k, v, mask, window_size=3),
    )
    for call in calls:
        with pytest.raises(ShapeError, match="attn_mask came, and .* never holds all pairs"):
            call()


OPTIONS: dict[str, tuple[Any, ...]] = {
    "plain": (0.0, True),
    "a learned key": (0.0, True, True),
    "a zero key": (0.0, True, False, True),
    "both, no bias": (0.0, False, True, True),
    "other widths": (0.0, True, True, True, 5, 6),
    "batch first": (0.0, True, True, True, 5, 6, True),
    "to the last": (0.0, True, False, False, None, None, False, "cpu", torch.float64),
}


def twins(options: tuple[Any, ...]) -> tuple[nn.MultiheadAttention, Attention]:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(E, A, *options).double()
    torch.manual_seed(0)
    ours = Attention(E, A, *options).double()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), f"{name} starts from other numbers"
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


@pytest.mark.sweep(3, each="options")
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask and attn_mask")  # torch's own
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", ["none", "bool", "numbers", "each head"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_positional_call_of_torch_s_layer_is_answered_alike(
    options: tuple[Any, ...], mask: str, padded: bool
) -> None:
    theirs, ours = twins(options)
    widths = (E, ours.kdim, ours.vdim)
    first = ours.batch_first
    q, k, v = (
        torch.randn((B, n, width) if first else (n, B, width), dtype=torch.float64)
        for n, width in zip((T, S, S), widths, strict=True)
    )
    shown = {
        "none": None,
        "bool": ~MASKS["bool"],  # type: ignore[operator]
        "numbers": torch.randn(T, S, dtype=torch.float64),
        "each head": torch.randn(B * A, T, S, dtype=torch.float64),
    }[mask]
    padding = torch.arange(S).expand(B, S) >= torch.tensor([[3], [5]]) if padded else None
    for need_weights in (False, True):
        found = ours(q, k, v, padding, need_weights, shown, False)
        wanted = theirs(q, k, v, padding, need_weights, shown, False)
        torch.testing.assert_close(found[0], wanted[0])
        if need_weights:
            torch.testing.assert_close(found[1], wanted[1])


@pytest.mark.parametrize("options", [(0.0, True, True), (0.0, True, False, True), (0.0, True, True, True)])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_added_keys_are_attended_to_by_all_also_token_by_token(options: tuple[Any, ...], qk_norm: bool) -> None:
    torch.manual_seed(0)
    layer = Attention(E, A, *options, qk_norm=qk_norm).double()
    x = torch.randn(T, B, E, dtype=torch.float64)
    whole, weights = layer(x, is_causal=True, need_weights=True)
    assert weights is not None
    assert (weights[:, :, T:] > 0).all()
    assert not weights[:, :, :T].triu(1).any()
    torch.testing.assert_close(layer(x, is_causal=True)[0], whole)
    state, answers = None, []
    for token in x.split(1):
        answer, state = layer.decode(token, state)
        answers.append(answer)
    torch.testing.assert_close(torch.cat(answers), whole)
    with pytest.raises(ShapeError, match="cu_seqlens came for a layer with add_bias_kv or add_zero_attn"):
        layer(x[:, :1], cu_seqlens=[0, 3, T])


@pytest.mark.parametrize("name", ["add_bias_kv", "add_zero_attn"])
def test_added_keys_are_refused_by_the_others(name: str) -> None:
    options: dict[str, Any] = {name: True}
    builds: tuple[Any, ...] = (
        lambda: WindowAttention(E, A, window_size=3, **options),
        lambda: TaylorAttention(E, A, **options),
        lambda: HybridAttention(E, A, window_size=3, **options),
        lambda: AutoAttention(E, A, **options),
    )
    for build in builds:
        with pytest.raises(ShapeError, match=f"has no place for a key that every query attends to, and {name} is True"):
            build()


DECODE: dict[str, Any] = {
    "softmax": softmax_decode,
    "window": lambda *x: window_decode(*x, window_size=3),
    "taylor": taylor_decode,
    "hybrid": lambda *x: hybrid_decode(*x, window_size=3),
}


@pytest.mark.parametrize("name", DECODE)
def test_states_follow_the_beams_of_a_search(name: str) -> None:
    q, k, v = draw(T)
    _, state = DECODE[name](q, k, v)
    beams = torch.tensor([1, 0, 1])
    new = [torch.randn(3, A, 1, 4, dtype=torch.float64) for _ in range(3)]
    found, _ = DECODE[name](*new, state.reorder_cache(beams))
    _, wanted_state = DECODE[name](q[beams], k[beams], v[beams])
    wanted, _ = DECODE[name](*new, wanted_state)
    assert torch.equal(found, wanted)
    for wrong in (torch.tensor([2]), torch.tensor([[0]]), torch.tensor([0.5]), [0]):
        with pytest.raises(ShapeError, match="beam_idx"):
            state.reorder_cache(wrong)


def test_a_hybrid_pass_starts_from_a_state_and_gives_one() -> None:
    q, k, v = draw(T)
    whole = hybrid_attention(q, k, v, is_causal=True, window_size=3)
    first, state = hybrid_attention(
        q[:, :, :4], k[:, :, :4], v[:, :, :4], is_causal=True, window_size=3, output_final_state=True
    )
    second = hybrid_attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], is_causal=True, window_size=3, initial_state=state)
    torch.testing.assert_close(torch.cat([first, second], 2), whole)
    with pytest.raises(ShapeError, match="attends to tokens that are not there yet"):
        hybrid_attention(q, k, v, window_size=3, output_final_state=True)


@pytest.mark.parametrize("kind", ["full", "causal", "sliding", "block", "block-causal"])
def test_flex_attention_takes_the_pattern(kind: Any) -> None:
    pattern = Pattern(kind, 3 if kind in ("sliding", "block", "block-causal") else None)
    mask = create_mask(pattern.mask_mod, 1, 1, T, S, device="cpu")
    assert torch.equal(mask[0, 0], pattern.mask(T, S))
