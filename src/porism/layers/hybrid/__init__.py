"""Softmax within a window and its series beyond it, under one denominator."""

from porism.layers.hybrid.layer import HybridAttention, hybrid_attention, hybrid_decode
from porism.layers.hybrid.state import HybridState

__all__ = ["HybridAttention", "HybridState", "hybrid_attention", "hybrid_decode"]
