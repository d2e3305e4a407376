"""Window attention: softmax attention to the keys nearby."""

from porism.layers.attention.window.functional import window_attention, window_decode
from porism.layers.attention.window.layer import WindowAttention

__all__ = ["WindowAttention", "window_attention", "window_decode"]
