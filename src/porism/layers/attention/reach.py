"""How far a pattern reaches in a text of a given length: who attends to any key, and through how short a window."""

from typing import NamedTuple

from porism.layers.attention.pattern import CAUSAL, FULL, Pattern


class Reach(NamedTuple):
    """Queries `first` to `end` - 1 may attend to a key, all others cannot.

    `pattern` and `offset`, the place of query `first`, show them the same keys as those requested. Windows and offsets
    are no longer than the text, however far apart queries and keys were put.
    """

    first: int
    end: int
    pattern: Pattern
    offset: int

    def is_whole(self, T: int) -> bool:
        """Whether none of T queries is left out."""
        return self.first == 0 and self.end == T


_NOWHERE = Reach(0, 0, Pattern("sliding", window_size=1), 0)


def reach(pattern: Pattern, T: int, S: int, offset: int = 0) -> Reach:
    """The reach of T queries, the first at the place `offset`, over S keys.

    >>> reach(Pattern("sliding", window_size=5, lookahead=9), T=7, S=7).pattern
    Pattern(kind='sliding', window_size=5, lookahead=6, dilation=1, is_causal=False)
    >>> reach(Pattern("sliding", window_size=9), T=7, S=7).pattern
    Pattern(kind='causal', window_size=None, lookahead=0, dilation=1, is_causal=False)
    >>> reach(Pattern("block", window_size=4), T=7, S=7, offset=-2)[:2]          # no key is at a position below 0
    (2, 7)
    """
    if pattern.kind not in ("sliding", "block"):
        return Reach(0, T, pattern, offset)
    if T == 0 or S == 0:
        return _NOWHERE
    return (_sliding if pattern.kind == "sliding" else _block)(pattern, T, S, offset)


def _sliding(pattern: Pattern, T: int, S: int, offset: int) -> Reach:
    W, ahead, d = pattern.window_size, pattern.lookahead, pattern.dilation
    assert W is not None
    first, end = max(0, -offset - ahead * d), min(T, S - offset + (W - 1) * d)
    T, offset = end - first, offset + first
    # A key is m steps of the dilation before its query. Of m = -ahead, ..., W - 1 those count that some query finds.
    nearest, furthest = max(-ahead, -((S - 1 - offset) // d)), min(W - 1, (offset + T - 1) // d)
    if T <= 0 or nearest > furthest:
        return _NOWHERE
    if nearest == furthest and d > 1:
        # One key for each query, so that there is nothing to step over.
        near = _sliding(Pattern("sliding", window_size=1), T, S, offset - nearest * d)
        return near._replace(first=first + near.first, end=first + near.end)
    # Where none of them is 0, the query's place moves to the next one.
    step = min(max(0, nearest), furthest)
    offset, W, ahead = offset - step * d, furthest - step + 1, step - nearest
    from_start = d == 1 and offset + T == W
    if from_start and offset + ahead >= S - 1:
        return Reach(first, end, FULL, offset)
    if from_start and ahead == 0:
        return Reach(first, end, CAUSAL, offset)
    is_narrow = (W, ahead, d) == (pattern.window_size, pattern.lookahead, pattern.dilation)
    return Reach(first, end, pattern if is_narrow else Pattern("sliding", W, ahead, d), offset)


def _block(pattern: Pattern, T: int, S: int, offset: int) -> Reach:
    W = pattern.window_size
    assert W is not None
    first, end = max(0, -offset), min(T, -(-S // W) * W - offset)
    if first >= end:
        return _NOWHERE
    offset += first
    if max(offset + end - first, S) > W:
        return Reach(first, end, pattern, offset)
    return Reach(first, end, CAUSAL if pattern.is_causal else FULL, offset)


def simplest(pattern: Pattern, T: int, S: int, offset: int) -> tuple[Pattern, int]:
    """The pattern and offset of the same pairs of T queries and S keys, without a window if it reaches over all.

    >>> simplest(Pattern("sliding", window_size=100), T=64, S=64, offset=0)[0].kind
    'causal'
    """
    near = reach(pattern, T, S, offset)
    # Where some query attends to no key, those that do are set apart by whoever answers.
    return (near.pattern, near.offset) if near.is_whole(T) else (pattern, offset)
