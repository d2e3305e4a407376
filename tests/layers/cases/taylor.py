"""The case of taylor."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import HEADS, Case, Inputs, Mistake
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax import naive as attention_naive
from porism.layers.attention.taylor import TaylorAttention, TaylorState, taylor_attention, taylor_decode
from porism.layers.attention.taylor import naive as taylor_naive
from porism.layers.attention.taylor.cost import cost as taylor_cost


def _naive_taylor(layer: TaylorAttention, inputs: Inputs) -> Tensor:
    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, HEADS, taylor_naive.taylor_attention)


def _attend_by_series(
    attend: Callable[..., Any] = taylor_attention, T: int = 7, S: int = 7, **options: Any
) -> Callable[[], Any]:
    q, k, v = (torch.zeros(2, 4, length, width) for length, width in ((T, 3), (S, 3), (S, 5)))
    return lambda: attend(q, k, v, **options)


TAYLOR = Case(
    build=lambda n: TaylorAttention(HEADS * n["D"], HEADS, batch_first=True, warn_above=None),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_taylor,
    cost=lambda: taylor_cost(heads=HEADS),
    mistakes=(
        Mistake(
            "odd order",
            lambda: TaylorAttention(12, 3, order=3),
            r"order 3 is odd, .* weights can turn negative.* Choose",
        ),
        Mistake("no order", lambda: TaylorAttention(12, 3, order=0), r"order is 0\. Give a whole number from 1 to 170"),
        Mistake(
            "map",
            lambda: TaylorAttention(12, 3, feature_map="turned"),
            r"there is no map 'turned'\. Choose from exact, rolled, ordered, diagonal\.",
        ),
        Mistake(
            "map of another order",
            lambda: TaylorAttention(12, 3, feature_map="rolled", order=4),
            r"the rolled map is of order 2, and order is 4\. Choose exact or ordered\.",
        ),
        Mistake(
            "window",
            lambda: TaylorAttention(12, 3, pattern=Pattern("sliding", window_size=3)),
            r"a sliding pattern forgets keys, and a running sum cannot\. Use WindowAttention for windows, or Hybrid",
        ),
        Mistake(
            "dropout", lambda: TaylorAttention(12, 3, dropout=0.1), r"dropout is 0\.1, and the series has no single"
        ),
        Mistake("limit", lambda: TaylorAttention(12, 3, warn_above=-1), r"warn_above is -1\. Give an error above 0"),
        Mistake(
            "heads that do not divide", lambda: TaylorAttention(12, 5), r"embed_dim 12 is not divisible by num_heads 5"
        ),
        Mistake(
            "dropout of weights", _attend_by_series(dropout_p=0.1), r"dropout_p is 0\.1, and the series has no single"
        ),
        Mistake(
            "lengths that do not add up",
            _attend_by_series(cu_seqlens=[0, 3, 6]),
            r"cu_seqlens are \[0, 3, 6\], expected numbers that rise from 0 to 7",
        ),
        Mistake(
            "lengths and another text",
            _attend_by_series(S=6, cu_seqlens=[0, 7]),
            r"each sequence attends to itself, and 7 queries came with 6 keys\. Pad the sequences",
        ),
        Mistake(
            "lengths and an offset",
            _attend_by_series(cu_seqlens=[0, 7], offset=1),
            r"cu_seqlens came with key_padding_mask, attn_mask or an offset\. Packed sequences need none",
        ),
        Mistake(
            "decoding another text",
            _attend_by_series(taylor_decode, S=6),
            r"decoding takes a key for each new token, and 7 queries came with 6 keys\. Give those of the new tokens",
        ),
        Mistake(
            "another state",
            _attend_by_series(taylor_decode, state=TaylorState(torch.zeros(2, 4, 10, 3), torch.zeros(2, 4, 10))),
            r"the state is \(2, 4, 10, 3\) and \(2, 4, 10\), expected \(2, 4, 10, 5\) and \(2, 4, 10\): batch, key",
        ),
    ),
)
