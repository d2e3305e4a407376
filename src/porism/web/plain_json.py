"""JSON that every browser reads: no NaN, no infinity."""

import math
from collections.abc import Mapping
from typing import Any


def plain_json(value: Any) -> Any:
    """The same with None for a number that is not finite, lists for tuples, and texts for keys.

    >>> plain_json({"loss": float("nan"), "probs": (0.5, 0.5)})
    {'loss': None, 'probs': [0.5, 0.5]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(part) for part in value]
    return value
