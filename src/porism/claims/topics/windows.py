"""Attention within windows: how many pairs are looked at, and how far a token sees through several layers.

Patterns are those of the layer; how far a token sees is where its Jacobian is not zero.
"""

import math
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from porism.claims.checks.compare import compared, counted_equal, slope
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.attention.orders import ONE_HEAD, grows_like
from porism.claims.topics.attention.scalar import SINGLE, operations
from porism.layers import WindowAttention
from porism.layers.attention.pattern import CAUSAL, FULL, Kind, Pattern
from porism.runs.exhibits import Lines

WINDOWS: tuple[Kind, ...] = ("sliding", "block")
FAR = (2**12, 2**16)
TOLERANCE = 0.01
"""On an exponent: at these lengths the start of the text, where windows are not full, still shows a little."""


GROWTH: dict[str, Callable[[int], int]] = {"W fixed": lambda T: 8, "W grows as T": lambda T: T // 8}
"""Windows while T grows."""


def exponents_of_pairs(form: Callable[[str, str], float]) -> Finding:
    """form(kind of pattern, growth of windows) against the exponent of T in the pairs that are looked at."""

    def pairs(kind: Kind, growth: str, T: int) -> int:
        return CAUSAL.num_pairs(T) if kind == "causal" else Pattern(kind, GROWTH[growth](T)).num_pairs(T)

    kinds: tuple[Kind, ...] = ("causal", *WINDOWS)
    return compared(
        ((f"{kind}, {growth}", slope(partial(pairs, kind, growth), FAR), form(kind, growth))
         for kind in kinds for growth in GROWTH),
        TOLERANCE,
    )  # fmt: skip


def work_in_small_windows(form: Callable[[int, int, int], float]) -> Finding:
    """form(T, D, W) against the exponents of pairs times D, in sliding windows and blocks that do not grow with T."""

    def exponents(D: int, W: int, kind: Kind) -> tuple[float, float]:
        pattern, stated = Pattern(kind, W), {T: form(T, D, W) for T in FAR}
        # What is zero or less grows with no power.
        grows = min(stated.values()) > 0
        return slope(lambda T: pattern.num_pairs(T) * D, FAR), slope(stated.__getitem__, FAR) if grows else math.nan

    cases = (
        (f"{kind}, as T grows at D={D}, W={W}: exponent", *exponents(D, W, kind))
        for D, W in ((8, 8), (64, 1), (2, 64))
        for kind in WINDOWS
    )
    return compared(cases, TOLERANCE)


@cache
def tokens_seen(kind: Kind, window: int, depth: int, T: int) -> int:
    """To how many tokens the last one attends through layers on top of each other: where its Jacobian is not zero."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(depth)
        pattern = Pattern(kind, window)
        layers = [WindowAttention(2, 1, pattern=pattern, batch_first=True, dtype=torch.float64) for _ in range(depth)]
        x = torch.randn(T, 2, dtype=torch.float64)

    def last(x: Tensor) -> Tensor:
        for layer in layers:
            x, _ = layer(x[None])
            x = x[0]
        return x[-1]

    slopes = torch.autograd.functional.jacobian(last, x)  # (2, T, 2)
    return int((slopes != 0).any(-1).any(0).sum())


def context(form: Callable[[int, int], tuple[int, int]]) -> Finding:
    """form(W, depth) -> tokens seen through (sliding windows, blocks) against Jacobians."""
    cases: list[tuple[str, int, int]] = []
    for W in (1, 2, 3, 5):
        for depth in (1, 2, 4):
            for kind, given in zip(WINDOWS, form(W, depth), strict=True):
                cases.append((f"{kind}, W={W}, {depth} layers", tokens_seen(kind, W, depth, T=5 * W), given))
    return counted_equal(cases)


def _pairs_by_length() -> Lines:
    lengths = [2**power for power in range(6, 17)]
    patterns = {
        "all": FULL,
        "those before": CAUSAL,
        "a sliding window of 64": Pattern("sliding", 64),
        "blocks of 64": Pattern("block", 64),
    }
    return Lines(
        title="Pairs that are looked at",
        about="To look back only halves the pairs; a window makes them grow with the length.",
        x="T",
        y="pairs",
        lines={name: [(float(T), float(one.num_pairs(T))) for T in lengths] for name, one in patterns.items()},
        log_x=True,
        log_y=True,
    )


def _weight_outside() -> Lines:
    """The last of T tokens, its logits of deviation 1, and lower by a slope for every token further back."""
    T, widths = 256, [2**power for power in range(9)]
    logits = torch.randn(200, T, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    back = torch.arange(T - 1, -1, -1)
    lines = {}
    for fall in (0.0, 0.01, 0.1):
        weights = (logits - fall * back).softmax(1)
        outside = [float(weights[:, back >= W].sum(1).mean()) for W in widths]
        lines[f"slope {fall:g}"] = [(float(W), share) for W, share in zip(widths, outside, strict=True)]
    return Lines(
        title=f"Weight that a window cuts off, of {T} tokens",
        about=(
            "The mean share of softmax's weight on tokens outside of the window, for logits of deviation 1. Without a "
            "slope all positions count alike, and a window loses what it leaves out; where logits fall with distance, "
            "little."
        ),
        x="W",
        y="share of the weight",
        lines=lines,
        log_x=True,
    )


def _context_by_depth() -> Lines:
    W, depths = 4, range(1, 9)
    return Lines(
        title=f"How far the last token sees, with a window of {W}",
        about="Sliding windows see further with each layer, blocks never do. Counted where the Jacobian is not zero.",
        x="layers",
        y="tokens seen",
        lines={
            kind: [(float(depth), float(tokens_seen(kind, W, depth, T=8 * W))) for depth in depths] for kind in WINDOWS
        },
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="004-09",
        topic="windows",
        where="2",
        says="Self-attention takes O(T^2).",
        verdict="holds under assumptions",
        precise="The width is fixed. With it, T^2 D + T D^2.",
        formulas=("T**2*D + T*D**2",),
        judge=grows_like({"a head": operations(SINGLE, "single")}, ONE_HEAD),
        stated=lambda T, D, A: T * T,
        corrected=lambda T, D, A: T * T * D + T * D * D,
        assumed=lambda T, D, A: D == 8,
    ),
    Claim(
        id="004-10",
        topic="windows",
        where="2",
        says=(
            "Of three patterns, all tokens before one, a sliding window and blocks, the last two make attention linear "
            "in the length, and the first does not."
        ),
        verdict="holds under assumptions",
        precise=(
            "Windows and blocks do not grow with T. To attend to the tokens before, and to itself, halves the pairs, "
            "and leaves them quadratic."
        ),
        formulas=("T*(T + 1)/2",),
        picture=_pairs_by_length,
        judge=exponents_of_pairs,
        stated=lambda kind, growth: 2 if kind == "causal" else 1,
        corrected=lambda kind, growth: 2 if kind == "causal" or growth == "W grows as T" else 1,
        assumed=lambda kind, growth: growth == "W fixed",
    ),
    Claim(
        id="004-11",
        topic="windows",
        where="2",
        says="A sliding window, or blocks of one size, bring attention down to O(T) if the window is small.",
        verdict="holds",
        precise=(
            "Small is one that does not grow with T: O(T W D). A sliding window that holds the token itself "
            "shows T W - W (W - 1) / 2 pairs, blocks that divide T show T W."
        ),
        formulas=("T*W*D", "T*W - W*(W - 1)/2", "T*W"),
        picture=_weight_outside,
        judge=work_in_small_windows,
        stated=lambda T, D, W: T,
        rival=lambda T, D, W: T * T,
    ),
    Claim(
        id="004-12",
        topic="windows",
        where="2",
        says="Windows lose whatever lies further back than they reach.",
        verdict="holds under assumptions",
        precise=(
            "In one layer. Through L layers a sliding window sees L (W - 1) + 1 tokens; blocks never see more than W, "
            "whatever their depth."
        ),
        formulas=("L*(W - 1) + 1",),
        picture=_context_by_depth,
        judge=context,
        stated=lambda W, depth: (W, W),
        corrected=lambda W, depth: (depth * (W - 1) + 1, W),
        assumed=lambda W, depth: depth == 1,
    ),
)
