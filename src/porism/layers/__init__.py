"""The architectures. Each folder holds one: its equations, oracle, layer, gradient by hand and cost."""

from porism.layers.attention import Attention, softmax_attention
from porism.layers.elman import Elman
from porism.layers.pattern import Pattern
from porism.layers.readout import Readout

__all__ = ["Attention", "Elman", "Pattern", "Readout", "softmax_attention"]
