"""Neural architectures with their gradients, their costs and the tasks they learn.

>>> import porism
>>> layer = porism.Elman(50, 100)
>>> porism.cost(layer, "T B 50").flops                 # the formula, from the code
30000*B*T

The names below load on first use, so that `import porism` costs nothing. Editors read them in __init__.pyi.
"""

from importlib import import_module
from typing import Any

from porism.version import __version__ as __version__

_MODULES = ("errors", "functional", "layers", "testing")
_WHERE = {
    "Attention": "porism.layers.attention.softmax.layer",
    "AutoAttention": "porism.layers.attention.auto",
    "Cost": "porism.costing.cost",
    "Elman": "porism.layers.recurrent.elman.layer",
    "Graph": "porism.layers.gcn.graph",
    "GraphConvolution": "porism.layers.gcn.layer",
    "Grid": "porism.layers.recurrent.grid.layer",
    "HybridAttention": "porism.layers.attention.hybrid.layer",
    "HybridState": "porism.layers.attention.hybrid.state",
    "KVCache": "porism.layers.attention.softmax.cache",
    "LSTM": "porism.layers.recurrent.lstm.layer",
    "Pattern": "porism.layers.attention.pattern",
    "Quantity": "porism.costing.quantity",
    "Readout": "porism.layers.readout.layer",
    "SkipGram": "porism.layers.skipgram.layer",
    "TaylorAttention": "porism.layers.attention.taylor.layer",
    "TaylorState": "porism.layers.attention.taylor.state",
    "Terms": "porism.costing.terms",
    "WindowAttention": "porism.layers.attention.window.layer",
    "attention": "porism.layers.attention.auto",
    "Comparison": "porism.api.compare",
    "Run": "porism.api.run",
    "compare": "porism.api.typed",
    "cost": "porism.api.cost",
    "load": "porism.api.run",
    "train": "porism.api.typed",
}

__all__ = [
    "LSTM",
    "Attention",
    "AutoAttention",
    "Comparison",
    "Cost",
    "Elman",
    "Graph",
    "GraphConvolution",
    "Grid",
    "HybridAttention",
    "HybridState",
    "KVCache",
    "Pattern",
    "Quantity",
    "Readout",
    "Run",
    "SkipGram",
    "TaylorAttention",
    "TaylorState",
    "Terms",
    "WindowAttention",
    "attention",
    "compare",
    "cost",
    "errors",
    "functional",
    "layers",
    "load",
    "testing",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"porism.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'porism' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names alone: what this file imports, and what was loaded meanwhile, is not for use from here."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
