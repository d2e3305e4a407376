"""How a pass goes through the length: queries in spans of a few, keys near them one by one, keys far off in a sum.

A span's keys are of three kinds: those behind that are far from each of its queries, those ahead that are, and those
between, where it takes a look at the pair. A walk along the spans collects the first kind, a walk back the second.
"""

from collections.abc import Iterator
from typing import NamedTuple

from porism.layers.taylor.spans import pieces

LENGTH = 128
"""Queries in a span. More make larger products, fewer waste less on pairs that are far but taken one by one."""


class Task(NamedTuple):
    """What to compute, beside the tensors. A state is returned, or given, for a causal pass only."""

    window: int
    order: int
    causal: bool
    scale: float
    offset: int = 0
    return_state: bool = False


class Step(NamedTuple):
    """The queries of a span, and the keys that are far from all of them and were not from those of the step before."""

    queries: slice
    fresh: slice


def spans(T: int) -> Iterator[slice]:
    return pieces(slice(0, T), LENGTH)


def walks(task: Task, T: int, S: int, resumed: bool = False) -> list[list[Step]]:
    """The walk that collects the keys behind, and the one that collects the keys ahead unless all is causal.

    >>> for step in walks(Task(window=100, order=2, causal=True, scale=1.0), T=300, S=300)[0]: print(*step)
    slice(128, 256, None) slice(0, 29, None)
    slice(256, 300, None) slice(29, 157, None)

    Steps that could read from an empty sum only are left out. A sum that is `resumed` is never empty.
    """
    behind, seen = [], 0
    for queries in spans(T):
        far = _within(S, queries.start + task.offset - task.window + 1)
        if far or resumed:
            behind.append(Step(queries, slice(seen, far)))
        seen = far
    if task.causal:
        return [behind]
    ahead, seen = [], S
    for queries in reversed(list(spans(T))):
        far = _within(S, queries.stop - 1 + task.offset + task.window)
        if far < S:
            ahead.append(Step(queries, slice(far, seen)))
        seen = far
    return [behind, ahead]


def between(task: Task, queries: slice, S: int) -> slice:
    """The keys that are not far from all queries of a span on the same side: those it takes a look at one by one."""
    first, last = queries.start + task.offset, queries.stop - 1 + task.offset
    return slice(_within(S, first - task.window + 1), _within(S, last + (1 if task.causal else task.window)))


def leaving(task: Task, S: int) -> int:
    """How many of S keys lie too far back to be near to the next query, which stands behind them all."""
    return max(0, S - (task.window - 1))


def _within(S: int, place: int) -> int:
    return min(max(0, place), S)
