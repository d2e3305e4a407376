"""A statement with what it assumes."""

from collections.abc import Callable
from typing import Any


def where(
    assumed: Callable[..., bool], stated: Callable[..., Any], otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """A statement where its assumption is met, and what is true elsewhere.

    >>> work = where(lambda T, D: D <= T, lambda T, D: T * T * D, lambda T, D: T * D * D)
    >>> work(10, 2), work(2, 10)
    (200, 200)
    """
    return lambda *sizes: stated(*sizes) if assumed(*sizes) else otherwise(*sizes)
