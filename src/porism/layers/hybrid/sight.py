"""Which keys each query of a span sees, near or far, and which queries see near keys alone."""

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.hybrid.walks import Task
from porism.layers.taylor.operands import BEYOND, Operands


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

    def __init__(self, task: Task, operands: Operands, first: Tensor | None = None) -> None:
        self._task, self._operands, self._first = task, operands, first
        self._known: dict[tuple[int, int, int], Sight] = {}

    def of(self, queries: slice, keys: slice) -> Sight:
        ahead = queries.start + self._task.offset - keys.start
        alike = queries.stop - queries.start, keys.stop - keys.start, ahead
        if alike not in self._known:
            query, key = (torch.arange(length, device=self._operands.k.device) for length in alike[:2])
            behind = query[:, None] + ahead - key
            not_near = behind.abs() >= self._task.window
            unseen = behind < 0 if self._task.causal else torch.zeros_like(not_near)
            self._known[alike] = Sight(not_near | unseen, ~not_near | unseen)
        sight = self._known[alike]
        if self._operands.kept is None:
            return sight
        pads = ~self._operands.kept[:, None, None, None, keys]
        return Sight(sight.not_near | pads, sight.not_far | pads)

    def near_alone(self, queries: slice) -> Tensor | slice:
        """Which queries of a span see a key and no far one: a slice, or a mask fit for (B, G, A / G, queries, 1)."""
        start, stop = self._near_alone
        place, n = queries.start + self._task.offset, queries.stop - queries.start
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
        places = torch.arange(place, place + n, device=self._operands.k.device)[:, None]
        inside = (places >= start) & (places < stop)
        return inside if none_before is None else inside & none_before

    @cached_property
    def _near_alone(self) -> tuple[int | Tensor, int | Tensor]:
        """The places between which queries see near keys alone: numbers, or with padding for each text."""
        first, W = self._operands.first_key, self._task.window
        start = first if self._task.causal else self._operands.last_key - W + 1
        if isinstance(first, Tensor) and not self._task.causal:
            # A text that is all padding has neither a first key nor a last one.
            start = torch.where(first < BEYOND, start, BEYOND)
        return _of_texts(start), _of_texts(first + W)


def _of_texts(place: int | Tensor) -> int | Tensor:
    """Of each text (B,), fit for (B, G, A / G, queries, 1); a number for all."""
    return place.view(-1, 1, 1, 1, 1) if isinstance(place, Tensor) else place
