"""NaN and infinity in padded keys and values stay there: answers and gradients are those of any other filling."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # no device is calibrated here
from torch import Tensor

from porism.functional import (
    attention,
    hybrid_attention,
    hybrid_decode,
    softmax_attention,
    softmax_decode,
    taylor_attention,
    taylor_decode,
    window_attention,
    window_decode,
)
from porism.layers import Attention, AutoAttention, HybridAttention, Pattern, TaylorAttention, WindowAttention
from porism.layers.attention.heads import Heads
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.usefixtures("double")

B, T, A, D, E = 3, 7, 2, 3, 6
CAUSAL = Pattern("causal")
PADDING = torch.zeros(B, T, dtype=torch.bool)
PADDING[0, 5:] = True
PADDING[1, :2] = True
EXACT = 1e-12  # zeros in place of pads lie otherwise in memory, and sums in another order
FILLINGS = (torch.nan, torch.inf, -torch.inf)

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax_attention,
    "softmax causal": lambda q, k, v, **options: softmax_attention(q, k, v, is_causal=True, **options),
    "softmax of two widths": lambda q, k, v, **options: softmax_attention(q, k, v[..., :2], **options),
    "window": lambda q, k, v, **options: window_attention(q, k, v, window_size=3, **options),
    "window with dropout": lambda q, k, v, **options: seeded(window_attention, q, k, v, window_size=3, **options),
    "window dilated": lambda q, k, v, **options: window_attention(
        q, k, v, pattern=Pattern("sliding", 3, dilation=2), **options
    ),
    "taylor": taylor_attention,
    "taylor causal": lambda q, k, v, **options: taylor_attention(q, k, v, is_causal=True, **options),
    "taylor of order 4": lambda q, k, v, **options: taylor_attention(q, k, v, order=4, **options),
    "hybrid": lambda q, k, v, **options: hybrid_attention(q, k, v, window_size=2, **options),
    "hybrid causal": lambda q, k, v, **options: hybrid_attention(q, k, v, None, 0.0, True, window_size=2, **options),
    "dense-softmax": lambda q, k, v, **options: attention(q, k, v, mechanism="dense-softmax", **options),
    "dense-taylor": lambda q, k, v, **options: attention(q, k, v, mechanism="dense-taylor", order=2, **options),
    "auto": attention,
}


def seeded(function: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    torch.manual_seed(1)
    return function(*args, dropout_p=0.3, **options)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_answer_as_for_any_other_filling(name: str) -> None:
    q, k, v = torch.randn(3, B, A, T, D)

    def outcome(filling: float) -> list[Tensor]:
        filled = [x.masked_fill(PADDING[:, None, :, None], filling).requires_grad_() for x in (k, v)]
        operands = [q.clone().requires_grad_(), *filled]
        answer = FUNCTIONS[name](*operands, key_padding_mask=PADDING)
        return [answer, *torch.autograd.grad(answer.square().sum(), operands)]

    expected = outcome(0.5)
    for filling in FILLINGS:
        for one, other in zip(outcome(filling), expected, strict=True):
            assert relative_error(one, other) <= EXACT


DECODES: dict[str, Callable[..., tuple[Tensor, Any]]] = {
    "softmax": softmax_decode,
    "window": lambda *given, **options: window_decode(*given, pattern=Pattern("sliding", 3), **options),
    "taylor": taylor_decode,
    "hybrid": lambda *given, **options: hybrid_decode(*given, window_size=2, **options),
}


@pytest.mark.parametrize("name", DECODES)
def test_decoding_continues_as_after_any_other_filling(name: str) -> None:
    q, k, v = torch.randn(3, B, A, T, D)

    def answers(filling: float) -> Iterator[Tensor]:
        state = None
        filled = [x.masked_fill(PADDING[:, None, :, None], filling) for x in (k, v)]
        for start, end in ((0, 3), (3, 4), (4, T)):
            now = slice(start, end)
            parts = (x[:, :, now] for x in (q, *filled))
            answer, state = DECODES[name](*parts, state, key_padding_mask=PADDING[:, now])
            yield answer

    for filling in FILLINGS:
        for one, other in zip(answers(filling), answers(0.5), strict=True):
            assert relative_error(one, other) <= EXACT


LAYERS: dict[str, Callable[..., Heads]] = {
    "softmax": lambda **options: Attention(E, A, **options),
    "softmax with added keys": lambda **options: Attention(E, A, add_bias_kv=True, add_zero_attn=True, **options),
    "softmax with narrow heads": lambda **options: Attention(E, A, head_dim=2, v_head_dim=1, **options),
    "softmax with qk_norm": lambda **options: Attention(E, A, qk_norm=True, **options),
    "window": lambda **options: WindowAttention(E, A, window_size=3, **options),
    "taylor": lambda **options: TaylorAttention(E, A, warn_above=None, **options),
    "hybrid": lambda **options: HybridAttention(E, A, window_size=2, pattern=CAUSAL, **options),
    "auto": lambda **options: AutoAttention(E, A, **options),
}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_the_weights_of_a_layer_that_attends_to_itself(name: str, batch_first: bool) -> None:
    layer, x = LAYERS[name](batch_first=batch_first), torch.randn(B, T, E)

    def outcome(filling: float) -> list[Tensor]:
        filled = x.masked_fill(PADDING[..., None], filling)
        answer = layer(filled if batch_first else filled.transpose(0, 1), key_padding_mask=PADDING)[0]
        answer = answer if batch_first else answer.transpose(0, 1)
        # A pad that is a query as well has no answer, and does not seem to have one.
        assert answer[PADDING].isfinite().all() == (filling == 0)
        kept = answer[~PADDING]
        return [kept, *torch.autograd.grad(kept.square().sum(), list(layer.parameters()))]

    expected = outcome(0.0)
    for filling in FILLINGS:
        for one, other in zip(outcome(filling), expected, strict=True):
            assert relative_error(one, other) <= EXACT


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_the_weights_of_a_layer_that_attends_to_others(name: str) -> None:
    layer, query, x = LAYERS[name](batch_first=True), torch.randn(B, T, E), torch.randn(2, B, T, E)

    def outcome(filling: float) -> list[Tensor]:
        key, value = x.masked_fill(PADDING[..., None], filling)
        answer = layer(query, key, value, key_padding_mask=PADDING)[0]
        return [answer, *torch.autograd.grad(answer.square().sum(), list(layer.parameters()))]

    expected = outcome(0.5)
    for filling in FILLINGS:
        for one, other in zip(outcome(filling), expected, strict=True):
            assert relative_error(one, other) <= EXACT


def test_weights_of_a_query_that_is_a_pad_without_a_number_are_none() -> None:
    layer, x = Attention(E, A), torch.randn(T, E)
    x[-1] = torch.nan
    padding = torch.arange(T) == T - 1
    for average in (True, False):
        answer, weights = layer(x, key_padding_mask=padding, need_weights=True, average_attn_weights=average)
        assert weights is not None
        assert weights[..., :-1, :].isfinite().all()
        assert weights[..., -1, :].isnan().all()
        assert answer[:-1].isfinite().all()
        assert answer[-1].isnan().all()
