"""The architectures. Each folder holds one: its equations, oracle, layer, gradient by hand and cost."""

from porism.layers.attention.auto import AutoAttention, Choice, choose_attention
from porism.layers.attention.hybrid import HybridAttention, HybridState, hybrid_attention, hybrid_decode
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax import Attention, KVCache, softmax_attention, softmax_decode
from porism.layers.attention.taylor import (
    SeriesWarning,
    TaylorAttention,
    TaylorState,
    series_error,
    taylor_attention,
    taylor_decode,
)
from porism.layers.attention.window import WindowAttention, window_attention, window_decode
from porism.layers.gcn import Graph, GraphConvolution
from porism.layers.readout import Readout
from porism.layers.recurrent.elman import Elman
from porism.layers.recurrent.grid import Grid
from porism.layers.recurrent.lstm import LSTM
from porism.layers.skipgram import SkipGram

__all__ = [
    "LSTM",
    "Attention",
    "AutoAttention",
    "Choice",
    "Elman",
    "Graph",
    "GraphConvolution",
    "Grid",
    "HybridAttention",
    "HybridState",
    "KVCache",
    "Pattern",
    "Readout",
    "SeriesWarning",
    "SkipGram",
    "TaylorAttention",
    "TaylorState",
    "WindowAttention",
    "choose_attention",
    "hybrid_attention",
    "hybrid_decode",
    "series_error",
    "softmax_attention",
    "softmax_decode",
    "taylor_attention",
    "taylor_decode",
    "window_attention",
    "window_decode",
]
