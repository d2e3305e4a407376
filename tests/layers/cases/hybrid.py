"""The case of hybrid."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import HEADS, Case, Inputs, Mistake
from torch import Tensor

from porism.costing.alphabet import D, T
from porism.layers.attention.hybrid import HybridAttention, hybrid_attention
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.hybrid.cost import cost as hybrid_cost
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax import naive as attention_naive


def _naive_hybrid(layer: HybridAttention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hybrid_naive.hybrid_attention(q, k, v, window_size=_HYBRID_WINDOW)

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, HEADS, one_head)


# Short enough for the contract's lengths to have keys beyond it.
_HYBRID_WINDOW = 3


def _attend_hybrid(**options: Any) -> Callable[[], Any]:
    return lambda: hybrid_attention(*torch.zeros(3, 2, 4, 7, 3), **{"window_size": 3, **options})


HYBRID = Case(
    build=lambda n: HybridAttention(HEADS * n["D"], HEADS, window_size=_HYBRID_WINDOW, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_hybrid,
    cost=lambda: hybrid_cost(heads=HEADS, window_size=_HYBRID_WINDOW, causal=False, width=D, length=T),
    mistakes=(
        Mistake("no window", _attend_hybrid(window_size=0), r"window_size is 0\. Give a whole number from 1 on"),
        Mistake("odd order", _attend_hybrid(order=3), r"order 3 is odd.*Choose 2 or 4, or set allow_odd=True"),
        Mistake("dropout", _attend_hybrid(dropout_p=0.5), r"dropout_p is 0\.5, and the series has no single weights"),
        Mistake("block", _attend_hybrid(pattern=Pattern("block", window_size=3)), r"is block, expected full or causal"),
        Mistake(
            "layer", lambda: HybridAttention(12, 3, window_size=0), r"window_size is 0\. Give a whole number from 1 on"
        ),
    ),
)
