"""Neural architectures with their gradients, their costs and the tasks they learn.

>>> import porism
>>> layer = porism.Elman(50, 100)
>>> porism.cost(layer, "T B 50").flops                 # the formula, from the code
30000*B*T

The names below load on first use, so that `import porism` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from porism.version import __version__ as __version__

if TYPE_CHECKING:
    from porism.api import cost
    from porism.costing.cost import Cost
    from porism.costing.quantity import Quantity
    from porism.costing.terms import Terms
    from porism.layers import (
        LSTM,
        Attention,
        AutoAttention,
        Elman,
        HybridAttention,
        Readout,
        TaylorAttention,
        WindowAttention,
    )
    from porism.layers.attention.auto import attention

__all__ = [
    "LSTM",
    "Attention",
    "AutoAttention",
    "Cost",
    "Elman",
    "HybridAttention",
    "Quantity",
    "Readout",
    "TaylorAttention",
    "Terms",
    "WindowAttention",
    "attention",
    "cost",
]

_ROOMS = dict.fromkeys(__all__, "porism.layers") | {
    "Cost": "porism.costing.cost",
    "Quantity": "porism.costing.quantity",
    "Terms": "porism.costing.terms",
    "attention": "porism.layers.attention.auto",
    "cost": "porism.api",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'porism' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
