"""How a pass goes through the length: queries in spans of a few, and for each span the keys that are new to it."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern

LENGTH = 256
"""Tokens in a span. More make larger products, which two threads share better; fewer waste less on masked pairs."""


class Span(NamedTuple):
    """The queries of a span, the keys that all of them look at and no span before did, and those only some look at."""

    queries: slice
    fresh: slice
    masked: slice

    @property
    def has_masked(self) -> bool:
        return bool(self.masked.stop > self.masked.start)


def spans(pattern: Pattern, T: int, S: int, offset: int = 0, length: int = LENGTH) -> list[Span]:
    """All spans of T queries over S keys, in order.

    >>> for span in spans(Pattern("causal"), 5, 5, length=2): print(*span)
    slice(0, 2, None) slice(0, 1, None) slice(1, 2, None)
    slice(2, 4, None) slice(1, 3, None) slice(3, 4, None)
    slice(4, 5, None) slice(3, 5, None) slice(5, 5, None)

    Every pattern that a running sum can follow lets a query look at all keys up to some end, which never falls from one
    query to the next. A span starts with what its first query sees; the rest, up to what its last one sees, is masked.
    """
    found = []
    start = seen = 0
    # A causal query is a block of one.
    block = pattern.window_size or 1
    while start < T:
        # Up to the last border between blocks within reach, so that a mask stays small and is the same for every span.
        border = (start + offset + length) // block * block - offset
        stop = min(border if border > start else start + length, T)
        whole, last = (_end(pattern, place + offset, S) for place in (start, stop - 1))
        found.append(Span(slice(start, stop), slice(seen, whole), slice(whole, last)))
        start, seen = stop, whole
    return found


def pieces(span: slice, length: int = LENGTH) -> Iterator[slice]:
    """A slice in pieces of at most so many."""
    for start in range(span.start, span.stop, length):
        yield slice(start, min(start + length, span.stop))


class Masks:
    """Which keys of a span its queries look at, 1 or 0. Spans that look alike share a mask."""

    def __init__(self, pattern: Pattern, offset: int, like: Tensor) -> None:
        self._pattern, self._offset, self._like = pattern, offset, like
        self._known: dict[tuple[int, ...], Tensor] = {}

    def of(self, span: Span) -> Tensor:
        """(queries, masked keys)."""
        place, keys = span.queries.start + self._offset, span.masked
        block = self._pattern.window_size or 1
        queries = span.queries.stop - span.queries.start
        alike = (queries, keys.stop - keys.start, place - keys.start, place % block)
        if alike not in self._known:
            device = self._like.device
            query = torch.arange(place, place + queries, device=device)
            key = torch.arange(keys.start, keys.stop, device=device)
            self._known[alike] = self._pattern.mask_mod(None, None, query[:, None], key).to(self._like.dtype)
        return self._known[alike]


def check_pattern(pattern: Pattern) -> None:
    """Refuses a pattern that a running sum cannot follow."""
    if not isinstance(pattern, Pattern):
        raise ShapeError(f"taylor: the pattern is {pattern!r}, expected a Pattern, such as Pattern('causal').")
    if pattern.kind not in ("full", "causal", "block-causal"):
        raise ShapeError(
            f"taylor: a {pattern.kind} pattern forgets keys, and a running sum cannot. "
            "Use WindowAttention for windows, or HybridAttention for a window with the series beyond it."
        )


def _end(pattern: Pattern, place: int, S: int) -> int:
    """How many keys, from the first on, the query at a position attends to."""
    if pattern.kind == "full":
        return S
    block = pattern.window_size or 1
    return min(max(0, (place // block + 1) * block), S)
