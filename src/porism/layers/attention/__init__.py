"""Softmax attention: softmax(q k^T / sqrt(D)) v."""

from porism.layers.attention.cache import Cache
from porism.layers.attention.layer import Attention, softmax_attention, softmax_decode

__all__ = ["Attention", "Cache", "softmax_attention", "softmax_decode"]
