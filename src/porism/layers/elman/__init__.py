"""The Elman layer: h[t] = act(x[t] I + h[t-1] H + b)."""

from porism.layers.elman.layer import Elman, elman

__all__ = ["Elman", "elman"]
