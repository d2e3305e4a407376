"""Neural architectures with their gradients, their costs and the tasks they learn.

>>> from porism import Elman
>>> layer = Elman(50, 100)

The names below load on first use, so that `import porism` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from porism.cost import Cost
    from porism.layers import Elman, Readout

__version__ = "0.1.0"

__all__ = ["Cost", "Elman", "Readout"]

_ROOMS = {"Cost": "porism.cost", "Elman": "porism.layers", "Readout": "porism.layers"}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'porism' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
