"""The case of window."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import HEADS, Case, Inputs, Mistake
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax import KVCache
from porism.layers.attention.softmax import naive as attention_naive
from porism.layers.attention.window import WindowAttention, window_attention, window_decode
from porism.layers.attention.window import naive as window_naive
from porism.layers.attention.window.cost import cost as window_cost


def _naive_window(layer: WindowAttention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return window_naive.window_attention(q, k, v, layer.pattern)

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, HEADS, one_head)


_NEAR = Pattern("sliding", window_size=3)


def _attend_near(
    q: tuple[int, ...] = (2, 4, 7, 3), k: tuple[int, ...] = (2, 4, 7, 3), pattern: Pattern = _NEAR, **options: Any
) -> Callable[[], Any]:
    v = options.pop("v", k)
    attend = options.pop("attend", window_attention)
    return lambda: attend(torch.zeros(q), torch.zeros(k), torch.zeros(v), pattern=pattern, **options)


WINDOW = Case(
    build=lambda n: WindowAttention(HEADS * n["D"], HEADS, window_size=5, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_window,
    cost=lambda: window_cost(heads=HEADS, window_size=5),
    mistakes=(
        Mistake(
            "no window",
            lambda: WindowAttention(12, 3, window_size=0),
            r"window_size is 0\. Give a whole number from 1 on",
        ),
        Mistake(
            "ahead of a block",
            lambda: WindowAttention(12, 3, pattern=Pattern("block", window_size=4, lookahead=1)),
            r"lookahead and dilation are for a sliding pattern, and this one is block",
        ),
        Mistake(
            "a pattern without a window",
            lambda: WindowAttention(12, 3, pattern=Pattern("full", window_size=4)),
            r"full pattern has no win",
        ),
        Mistake(
            "all blocks before",
            lambda: WindowAttention(12, 3, pattern=Pattern("block-causal", window_size=4)),
            r"a block-causal pattern attends to all blocks before, not to a window\. Take softmax_attention",
        ),
        Mistake(
            "all blocks before, heads", _attend_near(pattern=Pattern("block-causal", window_size=3)), r"not to a window"
        ),
        Mistake(
            "no such pattern",
            lambda: WindowAttention(12, 3, pattern=Pattern("slide", window_size=4)),  # type: ignore[arg-type]
            r"there is no pattern 'slide'\. Choose from full, causal, sliding",
        ),
        Mistake(
            "weights",
            lambda: WindowAttention(12, 3, window_size=4)(torch.zeros(7, 2, 12), need_weights=True),
            r"WindowAttention never holds all pairs, and need_weights=True asks for them\. Leave it out",
        ),
        Mistake("groups", _attend_near(k=(2, 3, 7, 3)), r"4 query heads do not share 3 key heads evenly"),
        Mistake("values", _attend_near(v=(2, 4, 6, 3)), r"value is \(2, 4, 6, 3\), expected \(2, 4, 7\) and any width"),
        Mistake(
            "padding",
            _attend_near(key_padding_mask=torch.zeros(2, 6).bool()),
            r"key_padding_mask is \(2, 6\), expected \(2, 7\)",
        ),
        Mistake("dropout", _attend_near(dropout_p=-0.1), r"dropout_p is -0\.1\. Give the probability"),
        Mistake(
            "lengths that do not add up",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cu_seqlens=[0, 3, 6]),
            r"cu_seqlens are \[0, 3, 6\], expected numbers that rise from 0 to 7",
        ),
        Mistake(
            "lengths and another text",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 6, 3), cu_seqlens=[0, 7]),
            r"each sequence attends to itself, and 7 queries came with 6 keys\. Pad the sequences",
        ),
        Mistake(
            "lengths and an offset",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cu_seqlens=[0, 7], offset=1),
            r"cu_seqlens came with key_padding_mask, attn_mask or an offset\. Packed sequences need none",
        ),
        Mistake(
            "decoding ahead",
            _attend_near(attend=window_decode, pattern=Pattern("sliding", window_size=3, lookahead=1)),
            r"this sliding pattern attends to tokens that are not there yet, so it cannot be decoded\. Choose causal",
        ),
        Mistake(
            "decoding whole blocks",
            _attend_near(attend=window_decode, pattern=Pattern("block", window_size=3)),
            r"this block pattern attends to tokens that are not there yet",
        ),
        Mistake(
            "decoding another text",
            _attend_near(attend=window_decode, k=(2, 4, 6, 3)),
            r"decoding takes a key for each new token, and 7 queries came with 6 keys\. Give those of the new",
        ),
        Mistake(
            "another state",
            _attend_near(attend=window_decode, state=KVCache(torch.zeros(2, 4, 2, 3), torch.zeros(2, 4, 2, 5))),
            r"the state has values of \(2, 4, 2, 5\), the new ones are \(2, 4, 7, 3\)\. Pass the state that the same",
        ),
    ),
)
