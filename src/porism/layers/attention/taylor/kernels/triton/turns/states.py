"""Sums over the tokens of a chunk, every chunk by itself: S = sum of m phi(x) [y, a]^T.

Keys: y is the value, a = 1, and m is 0 for padding and 1 otherwise. Queries, in the backward pass: y is dz, the
gradient that reached the answer z, a = dz . z and m = 1 / t, t being the query's sum of weights. m [dz, -a] is then
what reaches the sums that the query read; the minus is left to those who read these. Where keys decay, m is also what
is left of a key at the end of its chunk, or of the state before the chunk at a query.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.decay import left_of_tokens
from porism.layers.attention.taylor.kernels.triton.turns.features import constant, linear, repeats, turns
from porism.layers.kernels.triton import kept, none, numbers, product, rows


@triton.jit
def sum_chunks(
    x: tl.tensor,
    y: tl.tensor,
    padding: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    decays: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    x_batch: tl.tensor,
    x_head: tl.tensor,
    x_token: tl.tensor,
    y_batch: tl.tensor,
    y_head: tl.tensor,
    y_token: tl.tensor,
    T: tl.tensor,
    G: tl.tensor,
    parts: tl.tensor,
    skipped: tl.tensor,
    places: tl.tensor,
    scale: tl.tensor,
    QUERIES: tl.constexpr,
    PADDED: tl.constexpr,
    DECAY: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    F: tl.constexpr,
    TILES: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """TILES tiles of the M features of a chunk, over the R heads of x that belong to one of the B G key heads.

    The first chunks may be skipped; the `parts` after them are summed up. sums (B G, parts, M, H_TILE), weights
    (B G, parts, M).
    """
    groups: tl.constexpr = M // (F * TILES)
    tile = tl.program_id(0) % groups * TILES
    part = tl.program_id(0) // groups % parts
    n = (tl.program_id(0) // groups // parts).to(tl.int64)
    begin = ((skipped + part) * CHUNK).to(tl.int64)
    length = tl.minimum(T - (skipped + part) * CHUNK, CHUNK)
    repeat = tl.trans(repeats(D, D_TILE, F, NUMBER))
    totals = none()
    weight = none()
    for i in tl.static_range(TILES):
        totals += (tl.zeros((F, H_TILE), tl.float32),)
        # Beyond the end x and y are zero, and only the feature 1 is not: what the last step counts too much.
        excess = 0 if QUERIES or PADDED or DECAY else tl.cdiv(length, TOKENS) * TOKENS - length
        weight += (constant(tile + i, D, F) * -excess,)

    if DECAY:
        decays += n * 2 * places + begin
    for shared in range(R):
        head = n % G * R + shared
        of_x = x + n // G * x_batch + head * x_head + begin * x_token
        of_y = y + n // G * y_batch + head * y_head + begin * y_token
        row = (n * R + shared) * T + begin
        for start in range(0, length, TOKENS):
            # Features are rows here, and tokens columns.
            columns = tl.trans(rows(of_x, start, x_token, length, TOKENS, D, D_TILE).to(NUMBER))
            values = rows(of_y, start, y_token, length, TOKENS, H, H_TILE).to(NUMBER)
            if QUERIES:
                m = numbers(inverses + row, start, length, TOKENS)
                a = numbers(slopes + row, start, length, TOKENS)
            elif PADDED or DECAY:
                m = kept(padding + n // G * T + begin, start, length, TOKENS, PADDED).to(tl.float32)
            if DECAY:
                m *= left_of_tokens(decays, places, start, QUERIES, CHUNK, TOKENS)
            left = product(repeat, columns, PRECISION)
            if QUERIES:
                left *= scale
            new_totals = none()
            new_weight = none()
            for i in tl.static_range(TILES):
                # phi_f = x_i x_(i+s)
                turn = tl.trans(turns(tile + i, 0.5 if QUERIES else 1.0, D, D_TILE, F, NUMBER))
                right = product(turn, columns, PRECISION)
                if QUERIES:
                    right *= scale
                right -= linear(tile + i, D, F)[:, None]
                phi = left * right + constant(tile + i, D, F)[:, None]
                if QUERIES or PADDED or DECAY:
                    phi *= m[None, :]
                # S += m phi(x) [y, a]
                new_totals += (totals[i] + product(phi.to(NUMBER), values, PRECISION),)
                if QUERIES:
                    phi *= a[None, :]
                new_weight += (weight[i] + tl.sum(phi, 1),)
            totals = new_totals
            weight = new_weight

    sums += (n * parts + part) * M * H_TILE
    weights += (n * parts + part) * M
    column = tl.arange(0, H_TILE)
    for i in tl.static_range(TILES):
        feature = (tile + i) * F + tl.arange(0, F)
        tl.store(sums + feature[:, None] * H_TILE + column[None, :], totals[i].to(NUMBER))
        tl.store(weights + feature, weight[i])
