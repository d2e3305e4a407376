"""The Elman layer: h[t] = act(x[t] I + h[t-1] H + b)."""

from porism.layers.recurrent.elman.functional import elman
from porism.layers.recurrent.elman.layer import Elman

__all__ = ["Elman", "elman"]
