"""Times of attention: over its length, and over its heads at one width. Shapes take turns, so that noise meets all."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping

import torch

from porism.claims.checks.compare import slope
from porism.claims.claim import Ruling
from porism.claims.kept.result import KeptResult, KeptRun
from porism.layers import softmax_attention

LENGTHS = (1024, 2048, 4096, 8192)
HEADS = (1, 2, 4, 8, 16, 32, 64)
WIDTH, LENGTH, TURNS = 256, 1024, 101
MIN_TURNS = 11
"""Fewer cannot pass the sign tests."""
LEVEL = 0.01
"""Of the sign test over turns. A time has two modes where memory is placed otherwise, so that means say little."""
QUADRATIC = 0.25
"""How far an exponent may be from 2: what is done once for a token still shows at the lengths that are timed."""


def attention_by_length() -> Iterator[KeptRun]:
    """The median time of a forward pass with 8 heads of width 64, for each length."""
    shapes = {f"{T}": (1, 8, T, 64) for T in LENGTHS}
    for name, milliseconds in _times(shapes, turns=5).items():
        yield KeptRun({"T": int(name)}, None, {"milliseconds": statistics.median(milliseconds)})


def attention_by_heads() -> Iterator[KeptRun]:
    """The time of a forward pass at one width for each number of heads; a run a turn, in which all take turns."""
    shapes = {f"{A}": (1, A, LENGTH, WIDTH // A) for A in HEADS}
    for name, milliseconds in _times(shapes, turns=TURNS).items():
        for turn, value in enumerate(milliseconds):
            yield KeptRun({"A": int(name), "T": LENGTH, "D": WIDTH}, turn, {"milliseconds": value})


def quadratic_in_length(result: KeptResult) -> Ruling:
    """Whether the exponent of the time is 2 between the two greatest lengths, each at least 4,096."""
    times = {int(run.settings["T"]): run.numbers["milliseconds"] for run in result.runs}
    lengths = sorted(times)[-2:]
    if len(lengths) < 2 or lengths[0] < 4096:
        return Ruling(None, f"lengths up to {max(times):,} are too short to tell")
    exponent = slope(lambda T: times[T], lengths)
    seen = ", ".join(f"{times[T]:,.0f} ms for {T:,} tokens" for T in lengths)
    return Ruling(abs(exponent - 2) <= QUADRATIC, f"{seen}: an exponent of {exponent:.2f}")


def longer_with_heads(result: KeptResult) -> Ruling:
    """Whether every number of heads takes longer than one, by sign tests over turns: not if one of them is faster."""
    turns = len(result.chosen({"A": 1}))
    if turns < MIN_TURNS:
        return Ruling(None, f"{turns} turns, where {MIN_TURNS} are needed")
    one = result.number({"A": 1}, "milliseconds")
    longer = {
        A: sum(a > b for a, b in zip(result.number({"A": A}, "milliseconds"), one, strict=True))
        for A in result.values("A")
        if A != 1
    }
    medians = ", ".join(
        f"A={A}: {statistics.median(result.number({'A': A}, 'milliseconds')):.3g}" for A in (1, *longer)
    )
    seen = f"median ms at equal width, {medians}"
    if all(sign_test(count, turns) < LEVEL for count in longer.values()):
        return Ruling(True, f"{seen}; each longer than one head in at least {min(longer.values())} of {turns} turns")
    # One of several counts, so that the level is shared among them.
    faster = {A: count for A, count in longer.items() if sign_test(turns - count, turns) < LEVEL / len(longer)}
    if faster:
        A, count = next(iter(faster.items()))
        return Ruling(False, f"{seen}; with {A} heads it is longer in only {count} of {turns} turns")
    return Ruling(None, f"{seen}; the turns do not decide")


def sign_test(count: int, turns: int) -> float:
    """The probability of so many turns or more in which one of two is longer, where both are as likely.

    >>> sign_test(5, 5)
    0.03125
    """
    return sum(math.comb(turns, more) for more in range(count, turns + 1)) / float(2**turns)


def _times(shapes: Mapping[str, tuple[int, ...]], turns: int) -> dict[str, list[float]]:
    """Milliseconds of every turn. The first, which warms up, is not among them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator().manual_seed(0)
    inputs = {name: [torch.randn(shape, generator=draw).to(device) for _ in range(3)] for name, shape in shapes.items()}
    found: dict[str, list[float]] = {name: [] for name in shapes}
    for turn in range(turns + 1):
        for name, (q, k, v) in inputs.items():
            start = time.perf_counter()
            softmax_attention(q, k, v)
            _wait(device)
            if turn:
                found[name].append(1000 * (time.perf_counter() - start))
    return found


def _wait(device: str) -> None:
    waits: dict[str, Callable[[], None]] = {"cuda": torch.cuda.synchronize}
    waits.get(device, lambda: None)()
