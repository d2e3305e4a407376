"""Every functional form, by name.

>>> from porism.functional import softmax_attention
>>> q, k, v = torch.randn(3, 2, 8, 10, 16)                              # three times B A T D
>>> softmax_attention(q, k, v, is_causal=True).shape
torch.Size([2, 8, 10, 16])
"""

from porism.layers.attention.auto import attention, choose_attention
from porism.layers.attention.hybrid.functional import hybrid_attention, hybrid_decode
from porism.layers.attention.softmax.functional import softmax_attention, softmax_decode
from porism.layers.attention.taylor.error import series_error
from porism.layers.attention.taylor.functional import taylor_attention, taylor_decode
from porism.layers.attention.window.functional import window_attention, window_decode
from porism.layers.gcn.functional import graph_convolution
from porism.layers.readout.functional import linear_cross_entropy
from porism.layers.recurrent.elman.functional import elman
from porism.layers.recurrent.grid.functional import grid
from porism.layers.recurrent.lstm.functional import lstm
from porism.layers.skipgram.functional import sampled_loss, skipgram

__all__ = [
    "attention",
    "choose_attention",
    "elman",
    "graph_convolution",
    "grid",
    "hybrid_attention",
    "hybrid_decode",
    "linear_cross_entropy",
    "lstm",
    "sampled_loss",
    "series_error",
    "skipgram",
    "softmax_attention",
    "softmax_decode",
    "taylor_attention",
    "taylor_decode",
    "window_attention",
    "window_decode",
]
