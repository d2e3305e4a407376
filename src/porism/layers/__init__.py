"""The architectures. Each folder holds one: its equations, oracle, layer, gradient by hand and cost."""

from porism.layers.attention import Attention, softmax_attention
from porism.layers.elman import Elman
from porism.layers.hybrid import HybridAttention, hybrid_attention
from porism.layers.pattern import Pattern
from porism.layers.readout import Readout
from porism.layers.taylor import TaylorAttention, taylor_attention
from porism.layers.window import WindowAttention, window_attention

__all__ = [
    "Attention",
    "Elman",
    "HybridAttention",
    "Pattern",
    "Readout",
    "TaylorAttention",
    "WindowAttention",
    "hybrid_attention",
    "softmax_attention",
    "taylor_attention",
    "window_attention",
]
