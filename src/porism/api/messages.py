"""Errors of the floors below in Python's words."""

from collections.abc import Iterator
from contextlib import contextmanager

from porism.errors import PorismError


@contextmanager
def python_words() -> Iterator[None]:
    """Errors that leave this speak of arguments, not of options."""
    try:
        yield
    except PorismError as error:
        error.args = (error.in_python,)
        raise
