"""Which pass an operation counts for: a fused loss computes its gradient in the forward pass, where all is at hand.

Forward is what everybody understands by it, the loss without a gradient; what is computed of the gradient counts as
backward whenever it runs. The sum of both passes does not depend on that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OF_GRADIENT: ContextVar[bool] = ContextVar("of_gradient", default=False)


@contextmanager
def counted_as_backward() -> Iterator[None]:
    """What runs inside is work of the gradient, computed in the forward pass: `porism.cost` counts it as backward."""
    before = _OF_GRADIENT.set(True)
    try:
        yield
    finally:
        _OF_GRADIENT.reset(before)


def is_of_gradient() -> bool:
    """Whether what runs now is work of the gradient."""
    return _OF_GRADIENT.get()
