"""How code that nobody here wrote is run to be counted: in silence, and not taken for traced."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """Torch writes a page for every size that does not fit; here such a size is an answer."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def not_traced() -> Iterator[None]:
    """transformers asks whether it is traced, takes fake tensors for that, and would build masks that no user sees."""
    place = sys.modules.get("transformers.utils.import_utils")
    original = getattr(place, "is_fake_tensor", None)
    if place is None or original is None:
        yield
        return
    place.is_fake_tensor = lambda tensor: False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        place.is_fake_tensor = original  # type: ignore[attr-defined]
