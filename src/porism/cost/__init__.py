"""From code to formula: what a layer or a model costs.

>>> porism.cost(lambda D, H: torch.nn.LSTM(D, H), "T B D").flops
8*B*H*T*(D + H)

`porism.cost` is this room and its main door at once: called, it derives the cost of what it is given.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from porism.cost.alphabet import ALPHABET, SYMBOLS, A, B, C, D, E, H, K, M, N, T, V, W, X, Y
from porism.cost.formula import Cost

if TYPE_CHECKING:
    from porism.cost.derived import Derived

__all__ = ["ALPHABET", "SYMBOLS", "A", "B", "C", "Cost", "D", "E", "H", "K", "M", "N", "T", "V", "W", "X", "Y"]


class _Callable(ModuleType):
    def __call__(self, target: Any, *inputs: Any, **named: Any) -> "Derived":
        """See `porism.cost.derive.derive`."""
        from porism.cost.derive import derive

        return derive(target, *inputs, **named)


sys.modules[__name__].__class__ = _Callable
