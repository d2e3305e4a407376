"""How code that nobody here wrote is run to be counted: in silence, not taken for traced, conditions as they are."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


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


@contextmanager
def plain_conditions() -> Iterator[None]:
    """torch.cond runs the branch that it takes: it would compile both, and run one where no count sees it."""
    original = torch.cond

    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        return (true_fn if pred else false_fn)(*operands)

    torch.cond = cond
    try:
        yield
    finally:
        torch.cond = original
