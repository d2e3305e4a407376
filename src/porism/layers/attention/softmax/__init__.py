"""Softmax attention: softmax(q k^T / sqrt(D)) v."""

from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.softmax.functional import softmax_attention, softmax_decode
from porism.layers.attention.softmax.layer import Attention

__all__ = ["Attention", "KVCache", "softmax_attention", "softmax_decode"]
