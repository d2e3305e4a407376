"""The case of attention."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import HEADS, Case, Inputs, Mistake
from torch import Tensor

from porism.layers import Attention, softmax_attention
from porism.layers.attention.softmax import naive as attention_naive
from porism.layers.attention.softmax.cost import cost as attention_cost


def _naive_attention(layer: Attention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention_naive.softmax_attention(q, k, v, torch.ones((), dtype=torch.bool))

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, HEADS, one_head)


_ATTENTION = Attention(12, 3, batch_first=True)


def _attend(q: tuple[int, ...] = (2, 4, 7, 3), k: tuple[int, ...] = (2, 4, 7, 3), **options: Any) -> Callable[[], Any]:
    v = options.pop("v", k)
    return lambda: softmax_attention(torch.zeros(q), torch.zeros(k), torch.zeros(v), **options)


ATTENTION = Case(
    build=lambda n: Attention(HEADS * n["D"], HEADS, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_attention,
    cost=lambda: attention_cost(heads=HEADS),
    mistakes=(
        Mistake("no heads", lambda: Attention(12, 0), r"num_heads is 0\. Give a whole number from 1 on\."),
        Mistake(
            "heads that do not divide",
            lambda: Attention(12, 5),
            r"embed_dim 12 is not divisible by num_heads 5\. Choose num_heads from 1, 2, 3, 4, 6, 12",
        ),
        Mistake(
            "key heads that do not divide",
            lambda: Attention(12, 6, num_kv_heads=4),
            r"6 query heads do not share 4 key heads evenly\. Choose num_kv_heads from \[1, 2, 3, 6\]",
        ),
        Mistake("all dropped", lambda: Attention(12, 3, dropout=1.0), r"dropout is 1\.0\. Give the probability"),
        Mistake(
            "two scales",
            lambda: Attention(12, 3, scale=1.0, qk_norm=True),
            r"qk_norm has a learned temperature, and scale is 1\.0\. Leave out one",
        ),
        Mistake(
            "width",
            lambda: _ATTENTION(torch.zeros(2, 7, 11)),
            r"query is \(2, 7, 11\), width 11, expected width 12\. Build the layer for 11, or project query first",
        ),
        Mistake(
            "a vector", lambda: _ATTENTION(torch.zeros(12)), r"query is \(12,\), 1 dimensions, expected \(B, T, width"
        ),
        Mistake(
            "another batch",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), torch.zeros(3, 7, 12)),
            r"query is \(2, 7, 12\), key \(3, 7, 12\) and value \(3, 7, 12\), expected one batch",
        ),
        Mistake(
            "a key without a value",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), torch.zeros(2, 5, 12), torch.zeros(2, 4, 12)),
            r"expected one batch, and a value for every key\. Give those of the same texts",
        ),
        Mistake(
            "type",
            lambda: _ATTENTION(torch.zeros(2, 7, 12, dtype=torch.float64)),
            r"query is torch\.float64, in_proj_weight is torch\.float32, expected one type\. Convert query with",
        ),
        Mistake(
            "mask of another size",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), attn_mask=torch.zeros(7, 6)),
            r"attn_mask is \(7, 6\), expected \(7, 7\) for all or \(6, 7, 7\) for each head",
        ),
        Mistake(
            "three sizes", _attend(q=(4, 7, 3)), r"query is \(4, 7, 3\), expected 4 sizes: batch, heads, length, width"
        ),
        Mistake(
            "width of keys", _attend(k=(2, 4, 7, 5)), r"key is \(2, 4, 7, 5\), expected batch 2 and width 3 as in query"
        ),
        Mistake(
            "values", _attend(v=(2, 4, 6, 3)), r"value is \(2, 4, 6, 3\), expected \(2, 4, 7\) and any width, as in key"
        ),
        Mistake("groups", _attend(k=(2, 3, 7, 3)), r"4 query heads do not share 3 key heads evenly"),
        Mistake(
            "padding",
            _attend(key_padding_mask=torch.zeros(2, 6).bool()),
            r"key_padding_mask is \(2, 6\), expected \(2, 7\): batch and keys, True for a pad",
        ),
        Mistake("dropout", _attend(dropout_p=1.0), r"dropout_p is 1\.0\. Give the probability"),
        Mistake(
            "mask",
            _attend(attn_mask=torch.zeros(3, 7, 7)),
            r"attn_mask is \(3, 7, 7\), expected one that broadcasts to \(2, 4, 7, 7\)",
        ),
        Mistake(
            "mask of numbers",
            _attend(attn_mask=torch.zeros(7, 7).int()),
            r"attn_mask is torch\.int32, expected bool, or floating numbers to add to the logits\. Convert it with",
        ),
        Mistake(
            "lengths that do not add up",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cu_seqlens=[0, 3, 6]),
            r"cu_seqlens are \[0, 3, 6\], expected numbers that rise from 0 to 7, the tokens in all",
        ),
        Mistake(
            "a batch end to end",
            _attend(cu_seqlens=[0, 3, 7]),
            r"with cu_seqlens the batch is 1, and query is \(2, 4, 7, 3\)\. Put sequences end to end",
        ),
        Mistake(
            "lengths and another text",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 6, 3), cu_seqlens=[0, 7]),
            r"each sequence attends to itself, and 7 queries came with 6 keys\. Pad the sequences",
        ),
        Mistake(
            "lengths and an offset",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cu_seqlens=[0, 7], offset=1),
            r"cu_seqlens came with key_padding_mask, attn_mask or an offset\. Packed sequences need none",
        ),
    ),
)
