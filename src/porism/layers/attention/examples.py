"""The calls that a calibration times: for each kind a few sizes, from where a call is all overhead to where none is."""

from itertools import cycle
from typing import Any

from porism.layers.attention.methods import ORDER
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import Question

SQUARE = (
    (2, 40, 24, 24),
    (8, 40, 56, 56),
    (2, 104, 56, 56),
    (8, 104, 24, 24),
    (32, 72, 56, 56),
    (4, 208, 24, 24),
    (6, 208, 56, 56),
    (4, 416, 24, 24),
    (2, 416, 12, 56),
    (4, 416, 56, 56),
    (4, 832, 24, 24),
    (2, 832, 56, 56),
)
"""Heads, length, and widths of keys and values, for ways that go over all pairs."""

DENSE = (*SQUARE, (8, 992, 12, 56))
"""The same for ways that hold all weights, up to nearly as many as a choice may hold: new memory is slow."""

LINEAR = (
    (2, 48, 12, 12),
    (6, 48, 24, 56),
    (2, 208, 12, 56),
    (6, 208, 24, 24),
    (4, 416, 12, 24),
    (2, 416, 40, 40),
    (2, 624, 24, 56),
    (4, 832, 12, 56),
    (2, 1248, 12, 12),
    (2, 1248, 24, 24),
)
"""The same for ways whose time grows with the length."""

WINDOWED = (
    (2, 48, 24, 12),
    (8, 48, 56, 24),
    (2, 112, 56, 48),
    (32, 80, 56, 24),
    (6, 208, 24, 24),
    (4, 416, 56, 12),
    (6, 416, 24, 96),
    (2, 832, 56, 192),
    (2, 832, 24, 48),
    (4, 1664, 56, 48),
    (2, 1664, 24, 384),
)
"""Heads, length, width and window."""

LONGER, MORE = 8, 4
"""On a GPU texts are so many times as long, unless all weights are held, and there are so many times as many heads."""

NARROW, WIDE = 16, 64
"""The widths on a GPU, where each is compiled for itself: the series' features are of narrow keys, all else is wide."""

LARGEST = (8, 1248, 24, 24)
"""One more on a GPU for ways whose time grows with the length: since widths do not grow there, heads do."""


def examples(kind: str, device: str, **place: Any) -> list[Question]:
    """What to time for a kind of call."""
    longer, more = (1, 1) if device == "cpu" else (1 if kind.startswith("dense") else LONGER, MORE)
    linear = LINEAR if device == "cpu" else (*LINEAR, LARGEST)

    def ask(heads: int, T: int, D: int, H: int, pattern: Pattern, window: int | None = None) -> Question:
        A, T = heads * more, T * longer
        if device != "cpu":
            D, H = NARROW if "taylor" in kind or "hybrid" in kind else WIDE, WIDE
        limits: dict[str, Any] = {"pattern": pattern, "order": ORDER, "window": window}
        return Question(B=1, A=A, T=T, S=T, D=D, H=H, device=device, **limits, **place)

    match kind:
        case "softmax" | "causal softmax":
            return [ask(*sizes, FULL if kind == "softmax" else CAUSAL) for sizes in SQUARE]
        case "dense softmax" | "dense taylor":
            return [ask(*sizes, FULL) for sizes in DENSE]
        case "dense softmax with a mask" | "dense taylor with a mask":
            return [ask(*sizes, CAUSAL) for sizes in DENSE]
        case "softmax with a dense mask":
            return [ask(*sizes, Pattern("sliding", window=sizes[1] // 3)) for sizes in SQUARE]
        case "window":
            return [ask(A, T, D, D, Pattern("sliding", window=W)) for A, T, D, W in WINDOWED]
        case "window in blocks":
            return [ask(A, T, D, D, Pattern("block", window=W)) for A, T, D, W in WINDOWED]
        case "taylor" | "causal taylor":
            return [ask(*sizes, FULL if kind == "taylor" else CAUSAL) for sizes in linear]
        case _:
            windows = zip(linear, cycle((24, 48, 96)), strict=False)
            return [ask(*sizes, FULL if kind == "hybrid" else CAUSAL, window) for sizes, window in windows]
