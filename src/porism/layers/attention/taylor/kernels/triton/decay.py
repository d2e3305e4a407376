"""How keys decay: the factors exp(L_i - L_j) between places of a chunk, L the running sum of log_decay from its start.

Differences count, and a small one of two large sums has few digits in float32. So a sum is two numbers, the second what
the first has lost to rounding. A factor is taken from a later place to an earlier: at most 1 unless keys grow.
"""

from math import e, log2

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from porism.layers.attention.taylor.kernels.decay import LEAST
from porism.layers.attention.taylor.kernels.triton.pairs.reads import share_of_row
from porism.layers.kernels.triton import product


def running_sums(log_decay: Tensor, chunk: int, multiple: int) -> Tensor:
    """From (B, G, S) to (N, 2, places): sums to base 2 within each chunk; of whole chunks, and a multiple of places."""
    steps = log_decay.flatten(0, 1).double().clamp(min=LEAST)
    sums = _by_chunk(steps * log2(e), chunk).cumsum(2).flatten(1)
    sums = pad(sums, (0, -sums.shape[1] % multiple))
    high = sums.float()
    return torch.stack([high, (sums - high).float()], 1)


def log_decay_gradient(dlogs: Tensor, ends: Tensor, chunk: int) -> Tensor:
    """From what reaches L at every step, (N, S), and at the end of each chunk from later ones, (N, chunks): (N, S).

    L_i is the sum of log_decay up to i, so that of a step is the sum of dL_i from there on. What later chunks hand on
    comes through the state at the chunk's end, and so rounding is added up over a chunk and not over the text.
    """
    steps = _by_chunk(dlogs.double(), chunk)
    return (steps.flip(2).cumsum(2).flip(2) + ends.unsqueeze(2)).flatten(1)[:, : dlogs.shape[1]]


def _by_chunk(x: Tensor, chunk: int) -> Tensor:
    """(N, S) as (N, chunks, chunk), with zeros after the end."""
    return pad(x, (0, -x.shape[1] % chunk)).view(len(x), -1, chunk)


@triton.jit
def decay_between(
    decays: tl.tensor, places: tl.tensor, later: tl.tensor, earlier: tl.tensor, seen: tl.tensor | None = None
) -> tl.tensor:
    """What is left at later places of what was there at earlier ones, all of one chunk; 0 where it is not `seen`."""
    high = tl.load(decays + later) - tl.load(decays + earlier)
    low = tl.load(decays + places + later) - tl.load(decays + places + earlier)
    log = high + low
    if seen is not None:
        # Keys after a query would have grown, beyond all numbers in the end.
        log = tl.where(seen, log, float("-inf"))
    return tl.exp2(log)


@triton.jit
def decay_from_start(decays: tl.tensor, places: tl.tensor, later: tl.tensor) -> tl.tensor:
    """What is left at places of a chunk of the state before it."""
    return tl.exp2(tl.load(decays + later) + tl.load(decays + places + later))


@triton.jit
def left_of_tokens(
    decays: tl.tensor,
    places: tl.tensor,
    start: tl.tensor,
    QUERIES: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
) -> tl.tensor:
    """(TOKENS): what is left of keys at the end of their chunk, or of the state before the chunk at queries."""
    token = start + tl.arange(0, TOKENS)
    if QUERIES:
        return decay_from_start(decays, places, token)
    return decay_between(decays, places, token // CHUNK * CHUNK + CHUNK - 1, token)


@triton.jit
def logs_through_state(
    dx: tl.tensor,
    x: tl.tensor,
    g: tl.tensor,
    a: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    slot: tl.tensor,
    PAIRS: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """What reaches the logarithms of all weights between a token and a state, added up: phi(x) . (state [g, -a]).

    dx is what reached x so. With p_0 + p_1 + p_2 that sum, by degrees in x, x . dx is p_1 + 2 p_2.
    """
    row = tl.arange(0, D_TILE)
    inside = row < D
    column = tl.arange(0, H_TILE)
    after: tl.constexpr = 3 * D * D // 4 if PAIRS else (D // 2 + 1) * D
    sums += slot * M * H_TILE + after * H_TILE
    weights += slot * W + (D * D if PAIRS else after)
    linear = tl.load(sums + row[:, None] * H_TILE + column[None, :], mask=inside[:, None], other=0.0)
    weight = tl.load(weights + row, mask=inside, other=0.0)
    dlinear = product(g, tl.trans(linear), PRECISION) - a[:, None] * weight[None, :]
    ones = tl.load(sums + D * H_TILE + column).to(tl.float32)
    constant = tl.sum(g.to(tl.float32) * ones[None, :], 1) - a * tl.load(weights + D)
    return constant + 0.5 * tl.sum(x.to(tl.float32) * (dx + dlinear), 1)


@triton.jit
def reach_ends(
    sums: tl.tensor,
    weights: tl.tensor,
    sums_after: tl.tensor,
    weights_after: tl.tensor,
    ends: tl.tensor,
    slots: tl.tensor,
    PAIRS: tl.constexpr,
    D: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    ROWS: tl.constexpr,
    LINE: tl.constexpr,
) -> None:
    """What reaches the logarithm of all that is left at a chunk's end: the state there, times what reaches it.

    The state at the end of chunk p is that before chunk p + 1, and after p stand the queries that it reaches.
    """
    p = tl.program_id(0) % (slots - 1)
    n = (tl.program_id(0) // (slots - 1)).to(tl.int64)
    after = n * slots + p
    before = after + 1
    column = tl.arange(0, H_TILE)
    total = tl.zeros((ROWS, H_TILE), tl.float32)
    for start in range(0, M, ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None] * H_TILE + column[None, :]
        inside = (row < M)[:, None]
        state = tl.load(sums + before * M * H_TILE + place, mask=inside, other=0.0).to(tl.float32)
        dstate = tl.load(sums_after + after * M * H_TILE + place, mask=inside, other=0.0).to(tl.float32)
        if PAIRS:
            state *= share_of_row(row, D)[:, None]
        total += state * dstate
    of_weights = tl.zeros((LINE,), tl.float32)
    for start in range(0, W, LINE):
        row = start + tl.arange(0, LINE)
        weight = tl.load(weights + before * W + row, mask=row < W, other=0.0)
        dweight = tl.load(weights_after + after * W + row, mask=row < W, other=0.0)
        if PAIRS:
            weight *= tl.where(row < D * D, 0.5, 1.0)
        of_weights += weight * dweight
    tl.store(ends + n * slots + p, tl.sum(tl.sum(total, 1), 0) - tl.sum(of_weights, 0))
