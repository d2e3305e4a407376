"""The architectures. Each folder holds one: its equations, oracle, layer, gradient by hand and cost.

The names below load on first use, so that one layer can be used without waiting for the others. Editors read
them in __init__.pyi.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "LSTM": "recurrent.lstm.layer",
    "Attention": "attention.softmax.layer",
    "AutoAttention": "attention.auto",
    "Choice": "attention.auto",
    "Elman": "recurrent.elman.layer",
    "Graph": "gcn.graph",
    "GraphConvolution": "gcn.layer",
    "Grid": "recurrent.grid.layer",
    "HybridAttention": "attention.hybrid.layer",
    "HybridState": "attention.hybrid.state",
    "KVCache": "attention.softmax.cache",
    "Pattern": "attention.pattern",
    "Readout": "readout.layer",
    "SeriesWarning": "attention.taylor.error",
    "SkipGram": "skipgram.layer",
    "TaylorAttention": "attention.taylor.layer",
    "TaylorState": "attention.taylor.state",
    "WindowAttention": "attention.window.layer",
    "choose_attention": "attention.auto",
    "hybrid_attention": "attention.hybrid.functional",
    "hybrid_decode": "attention.hybrid.functional",
    "series_error": "attention.taylor.error",
    "softmax_attention": "attention.softmax.functional",
    "softmax_decode": "attention.softmax.functional",
    "taylor_attention": "attention.taylor.functional",
    "taylor_decode": "attention.taylor.functional",
    "window_attention": "attention.window.functional",
    "window_decode": "attention.window.functional",
}

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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'porism.layers' has no attribute {name!r}")
    return getattr(import_module(f"porism.layers.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    """The public names alone, those that are not loaded yet among them."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
