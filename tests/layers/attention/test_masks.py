"""Masks as nn.MultiheadAttention takes them: what is none is refused, and one beside is_causal holds as well."""

from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import Attention, AutoAttention, HybridAttention, Pattern, WindowAttention
from porism.layers.attention.heads import Heads
from porism.layers.attention.masks import is_causal_mask
from porism.testing.gradients import relative_error

E, A, B, T = 12, 3, 2, 7
EXACT = 1e-12
AHEAD = torch.ones(T, T).triu(1).bool()
CAUSAL: Tensor = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)


pytestmark = pytest.mark.usefixtures("double")


def twins(**options: Any) -> tuple[nn.MultiheadAttention, Attention]:
    theirs, ours = nn.MultiheadAttention(E, A, batch_first=True), Attention(E, A, batch_first=True, **options)
    ours.load_state_dict(theirs.state_dict(), strict=not options)
    return theirs, ours


BIASES = {
    "numbers": lambda: torch.randn(T, T).masked_fill(AHEAD, -torch.inf),
    "numbers for each head": lambda: torch.randn(B * A, T, T).masked_fill(AHEAD, -torch.inf),
    "bool": lambda: (torch.rand(T, T) < 0.4).fill_diagonal_(False) | AHEAD,
    "bool for each head": lambda: ((torch.rand(B * A, T, T) < 0.4) & ~torch.eye(T).bool()) | AHEAD,
    "the causal one": lambda: CAUSAL,
    "the causal one of bool": lambda: AHEAD,
    "the causal one for each head": lambda: CAUSAL.expand(B * A, T, T),
}


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask and attn_mask")
@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
def test_a_mask_beside_is_causal_is_used(name: str, need_weights: bool, padded: bool) -> None:
    theirs, ours = twins()
    x, mask = torch.randn(B, T, E), BIASES[name]()
    options: dict[str, Any] = {"attn_mask": mask, "need_weights": need_weights}
    if padded:
        options["key_padding_mask"] = torch.arange(T) >= torch.tensor([[5], [T]])
    found, found_weights = ours(x, is_causal=True, **options)
    # It is the causal limit already, so that torch needs no hint; with one it would drop the mask in the bare call.
    wanted, wanted_weights = theirs(x, x, x, **options)
    assert relative_error(found, wanted) <= EXACT
    if need_weights:
        assert found_weights is not None
        assert relative_error(found_weights, wanted_weights) <= EXACT


def test_a_mask_that_shows_what_lies_ahead_does_not_lift_the_limit() -> None:
    _, ours = twins()
    x, bias = torch.randn(B, T, E), torch.randn(T, T)
    for need_weights in (False, True):
        found, _ = ours(x, attn_mask=bias, is_causal=True, need_weights=need_weights)
        wanted, _ = ours(x, attn_mask=bias.masked_fill(AHEAD, -torch.inf))
        assert relative_error(found, wanted) <= EXACT
        found, _ = ours(x, attn_mask=torch.zeros(T, T).bool(), is_causal=True, need_weights=need_weights)
        assert relative_error(found, ours(x, is_causal=True)[0]) <= EXACT


@pytest.mark.parametrize("mask", [CAUSAL, AHEAD, CAUSAL.float(), CAUSAL.expand(B * A, T, T)], ids=range(4))
def test_the_causal_mask_costs_no_dense_mask(mask: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ours = twins()
    given: list[dict[str, Any]] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def spy(*args: Any, **options: Any) -> Tensor:
        given.append(options)
        return fused(*args, **options)

    monkeypatch.setattr("porism.layers.attention.softmax.method.scaled_dot_product_attention", spy)
    ours(torch.randn(B, T, E), attn_mask=mask, is_causal=True)
    assert [(options["attn_mask"], options["is_causal"]) for options in given] == [(None, True)]


def test_the_causal_mask_is_told_from_others() -> None:
    for T, S in ((1, 1), (1, 4), (4, 1), (5, 5), (3, 7), (7, 3)):
        hidden = ~Pattern("causal").mask(T, S)
        numbers = torch.zeros(T, S).masked_fill(hidden, -torch.inf)
        assert is_causal_mask(hidden)
        assert is_causal_mask(numbers)
        assert is_causal_mask(numbers.half().expand(3, 2, T, S))
        for place in range(T * S):
            wrong, wrong_numbers = hidden.clone(), numbers.clone()
            wrong.view(-1)[place] ^= True
            assert not is_causal_mask(wrong)
            for number in (1e-30, -1e9, torch.nan, torch.inf):
                wrong_numbers.view(-1)[place] = number
                assert not is_causal_mask(wrong_numbers)


@pytest.mark.parametrize("training", [True, False])
def test_takes_the_place_inside_a_causal_transformer(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, A, dim_feedforward=7, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    x = torch.randn(B, T, E)
    wanted = encoder(x, mask=CAUSAL, is_causal=True)
    for layer in encoder.layers:
        attention = Attention(E, A, batch_first=True)
        attention.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = attention
    assert relative_error(encoder.train(training)(x, mask=CAUSAL, is_causal=True), wanted) <= EXACT


LAYERS: dict[str, Any] = {
    "window": lambda **options: WindowAttention(E, A, window_size=3, batch_first=True, **options),
    "hybrid": lambda **options: HybridAttention(E, A, window_size=3, batch_first=True, **options),
}


@pytest.mark.parametrize("name", LAYERS)
def test_without_all_pairs_the_causal_mask_is_taken_and_no_other(name: str) -> None:
    layer: Heads = LAYERS[name]()
    x = torch.randn(B, T, E)
    wanted = layer(x, is_causal=True)[0]
    for mask in (CAUSAL, AHEAD, CAUSAL.expand(B * A, T, T)):
        assert torch.equal(layer(x, attn_mask=mask, is_causal=True)[0], wanted)
    others = (
        torch.zeros(T, T),
        torch.randn(T, T).masked_fill(AHEAD, -torch.inf),
        ~AHEAD,
        CAUSAL.nan_to_num(neginf=-1e9),
    )
    for mask in others:
        with pytest.raises(
            ShapeError, match="never holds all pairs, and attn_mask, which is not the causal one, asks for"
        ):
            layer(x, attn_mask=mask, is_causal=True)
        with pytest.raises(ShapeError, match="never holds all pairs, and attn_mask asks for them"):
            layer(x, attn_mask=mask)


@pytest.mark.sweep(1)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["softmax", "auto", *LAYERS])
def test_compiled_layers_use_both_or_check_while_they_run(name: str) -> None:
    torch.compiler.reset()
    exact: dict[str, Any] = {"softmax": lambda: twins()[1], "auto": lambda: AutoAttention(E, A, batch_first=True)}
    layer = (exact | LAYERS)[name]()
    x = torch.randn(B, T, E)
    compiled = torch.compile(
        lambda x, mask: layer(x, attn_mask=mask, is_causal=True)[0], fullgraph=True, backend="aot_eager"
    )
    assert relative_error(compiled(x, CAUSAL), layer(x, is_causal=True)[0]) <= EXACT
    bias = torch.randn(T, T)
    if name in exact:
        assert relative_error(compiled(x, bias), layer(x, attn_mask=bias, is_causal=True)[0]) <= EXACT
    else:
        with pytest.raises(RuntimeError, match="attn_mask came beside is_causal and is another"):
            compiled(x, bias)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_layer_checks_padding_while_it_runs() -> None:
    torch.compiler.reset()
    _, layer = twins()
    x = torch.randn(B, T, E)
    compiled = torch.compile(lambda x, mask: layer(x, key_padding_mask=mask)[0], fullgraph=True, backend="aot_eager")
    padding = torch.arange(T) >= torch.tensor([[5], [T]])
    numbers = torch.zeros(B, T).masked_fill(padding, -torch.inf)
    assert relative_error(compiled(x, numbers), layer(x, key_padding_mask=padding)[0]) <= EXACT
    with pytest.raises(RuntimeError, match="key_padding_mask adds numbers other than -inf and 0"):
        compiled(x, numbers + 1)


NO_MASKS: dict[str, Any] = {
    "int": torch.zeros(T, T).int(),
    "uint8": torch.zeros(T, T).to(torch.uint8),
    "int64": torch.zeros(T, T).long(),
    "complex": torch.zeros(T, T) * 1j,
    "another device": torch.zeros(T, T, device="meta"),
    "sparse": torch.zeros(T, T).to_sparse(),
    "list": [[0.0] * T] * T,
}


@pytest.mark.parametrize("wrong", NO_MASKS.values(), ids=NO_MASKS)
def test_what_is_no_mask_is_refused(wrong: Any) -> None:
    x = torch.randn(B, T, E)
    for need_weights in (False, True):
        for is_causal in (False, True):
            with pytest.raises(ShapeError, match=r"^attention: attn_mask is .*, expected "):
                twins()[1](x, attn_mask=wrong, need_weights=need_weights, is_causal=is_causal)


@pytest.mark.parametrize("wrong", NO_MASKS.values(), ids=NO_MASKS)
@pytest.mark.parametrize("name", ["softmax", "auto", *LAYERS])
def test_what_is_no_padding_is_refused(name: str, wrong: Any) -> None:
    exact: dict[str, Any] = {"softmax": lambda: twins()[1], "auto": lambda: AutoAttention(E, A, batch_first=True)}
    layer = (exact | LAYERS)[name]()
    padding = wrong[:B] if not isinstance(wrong, Tensor) or wrong.layout == torch.strided else wrong
    with pytest.raises(ShapeError, match=r"^attention: key_padding_mask is .*, expected "):
        layer(torch.randn(B, T, E), key_padding_mask=padding)
    with pytest.raises(ShapeError, match=r"^attention: key_padding_mask adds nan, expected -inf for a pad"):
        layer(torch.randn(B, T, E), key_padding_mask=torch.full((B, T), torch.nan))


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
def test_a_number_that_is_none_shows_in_the_answer(need_weights: bool) -> None:
    theirs, ours = twins()
    x = torch.randn(B, T, E)
    for number in (torch.nan, torch.inf):
        mask = torch.zeros(T, T)
        mask[2, 3] = number
        found = ours(x, attn_mask=mask, need_weights=need_weights)[0]
        wanted = theirs(x, x, x, attn_mask=mask, need_weights=need_weights)[0]
        assert torch.equal(found.isnan(), wanted.isnan())
        assert found.isnan().any(-1).tolist() == [[query == 2 for query in range(T)]] * B
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_a_mask_need_not_lie_dense() -> None:
    _, ours = twins()
    x, mask = torch.randn(B, T, E), torch.randn(B * A, T, T)
    wanted = ours(x, attn_mask=mask)[0]
    for other in (mask.mT.contiguous().mT, torch.stack([mask, -mask], -1)[..., 0]):
        assert torch.equal(ours(x, attn_mask=other)[0], wanted)
