from porism.layers.attention.auto import AutoAttention as AutoAttention
from porism.layers.attention.auto import Choice as Choice
from porism.layers.attention.auto import choose_attention as choose_attention
from porism.layers.attention.hybrid.functional import hybrid_attention as hybrid_attention
from porism.layers.attention.hybrid.functional import hybrid_decode as hybrid_decode
from porism.layers.attention.hybrid.layer import HybridAttention as HybridAttention
from porism.layers.attention.hybrid.state import HybridState as HybridState
from porism.layers.attention.pattern import Pattern as Pattern
from porism.layers.attention.softmax.cache import KVCache as KVCache
from porism.layers.attention.softmax.functional import softmax_attention as softmax_attention
from porism.layers.attention.softmax.functional import softmax_decode as softmax_decode
from porism.layers.attention.softmax.layer import Attention as Attention
from porism.layers.attention.taylor.error import SeriesWarning as SeriesWarning
from porism.layers.attention.taylor.error import series_error as series_error
from porism.layers.attention.taylor.functional import taylor_attention as taylor_attention
from porism.layers.attention.taylor.functional import taylor_decode as taylor_decode
from porism.layers.attention.taylor.layer import TaylorAttention as TaylorAttention
from porism.layers.attention.taylor.state import TaylorState as TaylorState
from porism.layers.attention.window.functional import window_attention as window_attention
from porism.layers.attention.window.functional import window_decode as window_decode
from porism.layers.attention.window.layer import WindowAttention as WindowAttention
from porism.layers.gcn.graph import Graph as Graph
from porism.layers.gcn.layer import GraphConvolution as GraphConvolution
from porism.layers.readout.layer import Readout as Readout
from porism.layers.recurrent.elman.layer import Elman as Elman
from porism.layers.recurrent.grid.layer import Grid as Grid
from porism.layers.recurrent.lstm.layer import LSTM as LSTM
from porism.layers.skipgram.layer import SkipGram as SkipGram

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
