"""How a pass goes through the length: queries in spans of a few, keys near them one by one, keys far off in a sum.

A span's keys are of three kinds: those before that are far from each of its queries, those ahead that are, and those
between, where it takes a look at the pair. A scan along the spans collects the first kind, one back the second.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.taylor.kernels.cpu import BEYOND, Operands
from porism.layers.attention.taylor.kernels.spans import pieces

LENGTH = 128
"""Queries in a span. More make larger products, fewer waste less on pairs that are far but taken one by one."""


class HybridSettings(NamedTuple):
    """What to compute, beside the tensors. A state is returned, or given, for a causal pass only."""

    window: int
    order: int
    causal: bool
    scale: float
    offset: int = 0
    return_state: bool = False


class FarKeys(NamedTuple):
    """The queries of a span, and the keys that are far from all of them and were not from those of the step before."""

    queries: slice
    fresh: slice


def spans(T: int) -> Iterator[slice]:
    return pieces(slice(0, T), LENGTH)


def scans(settings: HybridSettings, T: int, S: int, resumed: bool = False) -> list[list[FarKeys]]:
    """The scan that collects the keys before, and the one that collects the keys ahead unless all is causal.

    >>> for step in scans(HybridSettings(window=100, order=2, causal=True, scale=1.0), T=300, S=300)[0]: print(*step)
    slice(128, 256, None) slice(0, 29, None)
    slice(256, 300, None) slice(29, 157, None)

    Steps that could read from an empty sum only are left out. A sum that is `resumed` is never empty.
    """
    earlier, seen = [], 0
    for queries in spans(T):
        far = _within(S, queries.start + settings.offset - settings.window + 1)
        if far or resumed:
            earlier.append(FarKeys(queries, slice(seen, far)))
        seen = far
    if settings.causal:
        return [earlier]
    ahead, seen = [], S
    for queries in reversed(list(spans(T))):
        far = _within(S, queries.stop - 1 + settings.offset + settings.window)
        if far < S:
            ahead.append(FarKeys(queries, slice(far, seen)))
        seen = far
    return [earlier, ahead]


def between(settings: HybridSettings, queries: slice, S: int) -> slice:
    """The keys that are not far from all queries of a span on the same side: those it takes a look at one by one."""
    first, last = queries.start + settings.offset, queries.stop - 1 + settings.offset
    return slice(
        _within(S, first - settings.window + 1), _within(S, last + (1 if settings.causal else settings.window))
    )


def leaving(settings: HybridSettings, S: int) -> int:
    """How many of S keys lie too far back to be near to the next query, which comes after them all."""
    return max(0, S - (settings.window - 1))


def _within(S: int, place: int) -> int:
    return min(max(0, place), S)


class Sight(NamedTuple):
    """Which keys are not near to a query, and which not far, fit for (B, G, A / G, queries, keys).

    Those that are neither are not seen.
    """

    not_near: Tensor
    not_far: Tensor


class Sights:
    """The sight of each span. Spans that look alike share it, unless keys are padded.

    `first` is the state (N, M, H+1) that the pass starts from, with keys that are far from every query.
    """

    def __init__(self, settings: HybridSettings, operands: Operands, first: Tensor | None = None) -> None:
        self._settings, self._operands, self._first = settings, operands, first
        self._known: dict[tuple[int, int, int], Sight] = {}

    def of(self, queries: slice, keys: slice) -> Sight:
        ahead = queries.start + self._settings.offset - keys.start
        alike = queries.stop - queries.start, keys.stop - keys.start, ahead
        if alike not in self._known:
            query, key = (torch.arange(length, device=self._operands.k.device) for length in alike[:2])
            earlier = query[:, None] + ahead - key
            not_near = earlier.abs() >= self._settings.window
            unseen = earlier < 0 if self._settings.causal else torch.zeros_like(not_near)
            self._known[alike] = Sight(not_near | unseen, ~not_near | unseen)
        sight = self._known[alike]
        if self._operands.kept is None:
            return sight
        pads = ~self._operands.kept[:, None, None, None, keys]
        return Sight(sight.not_near | pads, sight.not_far | pads)

    def near_alone(self, queries: slice) -> Tensor | slice:
        """Which queries of a span see a key and no far one: a slice, or a mask fit for (B, G, A / G, queries, 1)."""
        start, stop = self._near_alone
        place, n = queries.start + self._settings.offset, queries.stop - queries.start
        alone = None
        if isinstance(start, int) and isinstance(stop, int):
            alone = slice(min(max(0, start - place), n), min(max(0, stop - place), n))
            if self._first is None or alone.stop <= alone.start:
                return alone
        none_before = None
        if self._first is not None:
            counts = self._operands.keys_in(self._first)
            none_before = counts.view(self._operands.B, self._operands.G, 1, 1, 1) == 0
            if alone == slice(0, n):
                return none_before
        positions = torch.arange(place, place + n, device=self._operands.k.device)[:, None]
        inside = (positions >= start) & (positions < stop)
        return inside if none_before is None else inside & none_before

    @cached_property
    def _near_alone(self) -> tuple[int | Tensor, int | Tensor]:
        """The positions between which queries see near keys alone: numbers, or with padding for each text."""
        first, W = self._operands.first_key, self._settings.window
        start = first if self._settings.causal else self._operands.last_key - W + 1
        if isinstance(first, Tensor) and not self._settings.causal:
            # A text that is all padding has neither a first key nor a last one.
            start = torch.where(first < BEYOND, start, BEYOND)
        return _of_texts(start), _of_texts(first + W)


def _of_texts(place: int | Tensor) -> int | Tensor:
    """Of each text (B,), fit for (B, G, A / G, queries, 1); a number for all."""
    return place.view(-1, 1, 1, 1, 1) if isinstance(place, Tensor) else place
