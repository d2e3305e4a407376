"""Who wants to know of every size that is counted: to show how far a derivation is, or to stop it between two."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[], None] | None] = ContextVar("listener", default=None)


@contextmanager
def before_each_count(call: Callable[[], None]) -> Iterator[None]:
    """Call a function before every count of a module, while this lasts. What it raises ends the derivation."""
    token = _listener.set(call)
    try:
        yield
    finally:
        _listener.reset(token)


def about_to_count() -> None:
    if (call := _listener.get()) is not None:
        call()
