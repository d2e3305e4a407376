"""Sums over the tokens of a chunk, every chunk by itself: S = sum of m phi(x) [y, a]^T.

Keys: y is the value, a = 1, and m is 0 for padding and 1 otherwise. Queries, in the backward pass: y is dz, the
gradient that reached the answer z, a = dz . z and m = 1 / t, t being the query's sum of weights. m [dz, -a] is then
what reaches the sums that the query read; the minus is left to those who read these. Where keys decay, m is also what
is left of a key at the end of its chunk, or of the state before the chunk at a query.

Sums are over tokens, so that x_i is wanted for many tokens at a time: a first pass copies x with tokens side by side.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.decay import left_of_tokens
from porism.layers.kernels.triton import all_ended, kept, multiplied, multiplied_and_added, none, numbers, product, rows


@triton.jit
def put_tokens_side_by_side(
    x: tl.tensor,
    padding: tl.tensor,
    inverses: tl.tensor,
    decays: tl.tensor,
    columns: tl.tensor,
    scaled: tl.tensor,
    x_batch: tl.tensor,
    x_head: tl.tensor,
    x_token: tl.tensor,
    T: tl.tensor,
    A: tl.tensor,
    width: tl.tensor,
    places: tl.tensor,
    scale: tl.tensor,
    QUERIES: tl.constexpr,
    PADDED: tl.constexpr,
    DECAY: tl.constexpr,
    R: tl.constexpr,
    CHUNK: tl.constexpr,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
    NUMBER: tl.constexpr,
) -> None:
    """columns (B A, D, width): x, zero for padding and beyond the text. Queries are scaled, and `scaled` is m x.

    Keys that do not decay have no `scaled`. R heads of x share a row of `decays`.
    """
    blocks = width // TOKENS
    block = tl.program_id(0) % blocks
    n = (tl.program_id(0) // blocks).to(tl.int64)
    x += n // A * x_batch + n % A * x_head
    start = block * TOKENS
    row = rows(x, start.to(tl.int64), x_token, T, TOKENS, D, D).to(tl.float32)
    place = n * D * width + tl.arange(0, D)[:, None] * width + (start + tl.arange(0, TOKENS))[None, :]
    if QUERIES:
        row = (row * scale).to(NUMBER).to(tl.float32)
        m = numbers(inverses + n * T, start, T, TOKENS)
        if DECAY:
            m *= left_of_tokens(decays + n // R * 2 * places, places, start, QUERIES, CHUNK, TOKENS)
        tl.store(scaled + place, tl.trans((row * m[:, None]).to(NUMBER)))
    elif PADDED:
        row = tl.where(kept(padding + n // A * T, start, T, TOKENS, PADDED)[:, None], row, 0.0)
    tl.store(columns + place, tl.trans(row.to(NUMBER)))
    if DECAY and not QUERIES:
        left = left_of_tokens(decays + n // R * 2 * places, places, start, QUERIES, CHUNK, TOKENS)
        tl.store(scaled + place, tl.trans((row * left[:, None]).to(NUMBER)))


@triton.jit
def sum_pairs(
    columns: tl.tensor,
    scaled: tl.tensor,
    y: tl.tensor,
    sums: tl.tensor,
    y_batch: tl.tensor,
    y_head: tl.tensor,
    y_token: tl.tensor,
    T: tl.tensor,
    G: tl.tensor,
    parts: tl.tensor,
    skipped: tl.tensor,
    width: tl.tensor,
    UPPER: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    UNITS: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """UNITS times D rows of sums, over the R heads of x that belong to one of the B G key heads.

    D rows are x_i with all x_j for an i of the lower half; in the UPPER half two i with half of all x_j each.
    The first chunks may be skipped; the `parts` after them are summed up. sums (B G, parts, M, H_TILE).
    """
    half: tl.constexpr = D // 2
    groups: tl.constexpr = (half // 2 if UPPER else half) // UNITS
    first = tl.program_id(0) % groups * UNITS
    part = tl.program_id(0) // groups % parts
    n = (tl.program_id(0) // groups // parts).to(tl.int64)
    begin = ((skipped + part) * CHUNK).to(tl.int64)
    length = tl.minimum(T - (skipped + part) * CHUNK, CHUNK)
    token = tl.arange(0, TOKENS)
    row = tl.arange(0, D)
    j = half + row % half if UPPER else row
    totals = none()
    for _ in tl.static_range(UNITS):
        totals += (tl.zeros((D, H_TILE), tl.float32),)

    for shared in range(R):
        of_y = y + n // G * y_batch + (n % G * R + shared) * y_head + begin * y_token
        of_x = (n * R + shared) * D * width + begin
        for start in range(0, length, TOKENS):
            values = rows(of_y, start, y_token, length, TOKENS, H, H_TILE).to(NUMBER)
            # Rows are j here, and tokens columns.
            places = columns + of_x + j[:, None] * width + (start + token)[None, :]
            if UPPER:
                # With zeros for the rows of the other i, so that products can be added where they are.
                right = tl.load(places, mask=(row < half)[:, None], other=0.0)
                other_right = tl.load(places, mask=(row >= half)[:, None], other=0.0)
            else:
                right = tl.load(places)
            new_totals = none()
            for unit in tl.static_range(UNITS):
                i = half + 2 * (first + unit) if UPPER else first + unit
                # S_ij += m x_i x_j y
                left = tl.load(scaled + of_x + i * width + start + token)[None, :]
                phi = multiplied(left, right)
                if UPPER:
                    left = tl.load(scaled + of_x + (i + 1) * width + start + token)[None, :]
                    phi = multiplied_and_added(phi, left, other_right)
                new_totals += (totals[unit] + product(phi, values, PRECISION),)
            totals = all_ended(new_totals, UNITS)

    sums += (n * parts + part) * M * H_TILE
    column = tl.arange(0, H_TILE)
    for unit in tl.static_range(UNITS):
        place = (first + unit + (half if UPPER else 0)) * D + row
        tl.store(sums + place[:, None] * H_TILE + column[None, :], totals[unit].to(NUMBER))


@triton.jit
def sum_others(
    columns: tl.tensor,
    scaled: tl.tensor,
    y: tl.tensor,
    padding: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    decays: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    y_batch: tl.tensor,
    y_head: tl.tensor,
    y_token: tl.tensor,
    T: tl.tensor,
    G: tl.tensor,
    parts: tl.tensor,
    skipped: tl.tensor,
    width: tl.tensor,
    places: tl.tensor,
    QUERIES: tl.constexpr,
    PADDED: tl.constexpr,
    DECAY: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """What is left of a chunk: the sums of m x y and m y, and all its weights, m a x_i x_j, m a x and m a."""
    part = tl.program_id(0) % parts
    n = (tl.program_id(0) // parts).to(tl.int64)
    begin = ((skipped + part) * CHUNK).to(tl.int64)
    length = tl.minimum(T - (skipped + part) * CHUNK, CHUNK)
    token = tl.arange(0, TOKENS)
    row = tl.arange(0, D)
    total = tl.zeros((D, H_TILE), tl.float32)
    total_of_ones = tl.zeros((H_TILE,), tl.float32)
    pairs = tl.zeros((D, D), tl.float32)
    linear = tl.zeros((D,), tl.float32)
    ones = 0.0
    if DECAY:
        decays += n * 2 * places + begin
    for shared in range(R):
        of_y = y + n // G * y_batch + (n % G * R + shared) * y_head + begin * y_token
        of_x = (n * R + shared) * D * width + begin
        for start in range(0, length, TOKENS):
            values = rows(of_y, start, y_token, length, TOKENS, H, H_TILE).to(NUMBER)
            place = of_x + row[:, None] * width + (start + token)[None, :]
            right = tl.load(columns + place)
            # Keys that do not decay have m = 1, and `scaled` is `columns`.
            left = right
            if QUERIES or DECAY:
                left = tl.load(scaled + place)
            if QUERIES:
                m = numbers(inverses + (n * R + shared) * T + begin, start, length, TOKENS)
                a = numbers(slopes + (n * R + shared) * T + begin, start, length, TOKENS)
            else:
                m = kept(padding + n // G * T + begin, start, length, TOKENS, PADDED).to(tl.float32)
            if DECAY:
                m *= left_of_tokens(decays, places, start, QUERIES, CHUNK, TOKENS)
            total += product(left, values, PRECISION)
            total_of_ones += tl.sum(values.to(tl.float32) * m[:, None], 0)
            if QUERIES:
                m *= a
            if QUERIES or DECAY:
                weighed = right.to(tl.float32) * m[None, :]
                high = weighed.to(NUMBER)
                pairs += product(high, tl.trans(right), PRECISION)
                if tl.float32 != NUMBER:
                    # Weights are added up with more bits than a factor of a product has: the rest is a second one.
                    pairs += product((weighed - high.to(tl.float32)).to(NUMBER), tl.trans(right), PRECISION)
            else:
                weighed = right.to(tl.float32)
                pairs += product(right, tl.trans(right), PRECISION)
            linear += tl.sum(weighed, 1)
            ones += tl.sum(m, 0)

    sums += (n * parts + part) * M * H_TILE
    weights += (n * parts + part) * W
    column = tl.arange(0, H_TILE)
    after: tl.constexpr = M - D - 1
    tl.store(sums + (after + row)[:, None] * H_TILE + column[None, :], total.to(NUMBER))
    tl.store(sums + (after + D) * H_TILE + column, total_of_ones.to(NUMBER))
    tl.store(weights + row[:, None] * D + row[None, :], pairs)
    tl.store(weights + D * D + row, linear)
    line = tl.arange(0, W - D * D - D)
    tl.store(weights + D * D + D + line, tl.where(line == 0, ones, 0.0))
