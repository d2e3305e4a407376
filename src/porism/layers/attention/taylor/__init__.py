"""Attention by the series of the exponential: linear in the length."""

from porism.layers.attention.taylor.error import SeriesWarning, series_error
from porism.layers.attention.taylor.functional import taylor_attention, taylor_decode
from porism.layers.attention.taylor.layer import TaylorAttention
from porism.layers.attention.taylor.state import ChunkedTaylorState, TaylorState

__all__ = [
    "ChunkedTaylorState",
    "SeriesWarning",
    "TaylorAttention",
    "TaylorState",
    "series_error",
    "taylor_attention",
    "taylor_decode",
]
