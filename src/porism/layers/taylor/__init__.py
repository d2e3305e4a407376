"""Attention by the series of the exponential: linear in the length."""

from porism.layers.taylor.estimate import series_error
from porism.layers.taylor.layer import TaylorAttention, taylor_attention, taylor_decode
from porism.layers.taylor.state import TaylorState
from porism.layers.taylor.watch import SeriesWarning

__all__ = ["SeriesWarning", "TaylorAttention", "TaylorState", "series_error", "taylor_attention", "taylor_decode"]
