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
    "Attention": "porism.layers",
    "AutoAttention": "porism.layers",
    "Cost": "porism.costing.cost",
    "Elman": "porism.layers",
    "Graph": "porism.layers",
    "GraphConvolution": "porism.layers",
    "Grid": "porism.layers",
    "HybridAttention": "porism.layers",
    "HybridState": "porism.layers",
    "KVCache": "porism.layers",
    "LSTM": "porism.layers",
    "Pattern": "porism.layers",
    "Quantity": "porism.costing.quantity",
    "Readout": "porism.layers",
    "SkipGram": "porism.layers",
    "TaylorAttention": "porism.layers",
    "TaylorState": "porism.layers",
    "Terms": "porism.costing.terms",
    "WindowAttention": "porism.layers",
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
