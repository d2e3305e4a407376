"""Window attention: softmax attention to the keys nearby."""

from porism.layers.window.layer import WindowAttention, window_attention, window_decode

__all__ = ["WindowAttention", "window_attention", "window_decode"]
