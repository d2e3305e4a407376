"""Softmax within a window and its series beyond it, under one denominator."""

from porism.layers.attention.hybrid.functional import hybrid_attention, hybrid_decode
from porism.layers.attention.hybrid.layer import HybridAttention
from porism.layers.attention.hybrid.state import HybridState

__all__ = ["HybridAttention", "HybridState", "hybrid_attention", "hybrid_decode"]
