"""What a tile of tokens reads from a state, and what reaches the tokens through it, by PAIRS or by turns.

A state is a slot of sums (slots, M, H_TILE) and weights (slots, W), over keys or, on the way back, over queries.
`units` is how often to read from it, and 0 where it is empty. `of_x` is where the elements of x lie, and `scale` what x
has been multiplied by.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.pairs import reads as pairs
from porism.layers.attention.taylor.kernels.triton.turns import reads as turns


@triton.jit
def read_state(
    z: tl.tensor,
    total: tl.tensor,
    x: tl.tensor,
    of_x: tl.tensor,
    token: tl.tensor,
    length: tl.tensor,
    scale: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    slot: tl.tensor,
    units: tl.tensor,
    PAIRS: tl.constexpr,
    FAR: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    QUERIES: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """z and the sum of weights with what queries find in a state over keys, phi(k) [v, 1]; not pairs that are FAR."""
    sums += slot * M * H_TILE
    weights += slot * W
    if PAIRS:
        z, total = pairs.read_state(
            z, total, x, of_x, token, length, scale, sums, weights, units, D, H_TILE, M, FAR, QUERIES, NUMBER, PRECISION
        )
    else:
        z, total = turns.read_state(z, total, x, sums, weights, units, D, D_TILE, H_TILE, F, NUMBER, PRECISION)
    return z, total


@triton.jit
def reach_queries_through_state(
    dx: tl.tensor,
    x: tl.tensor,
    of_x: tl.tensor,
    token: tl.tensor,
    length: tl.tensor,
    scale: tl.tensor,
    g: tl.tensor,
    a: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    slot: tl.tensor,
    units: tl.tensor,
    PAIRS: tl.constexpr,
    FAR: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    QUERIES: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """dx with what a state over keys hands on to the queries that read it; [g, -a] is what reaches their sums.

    Where they are FAR, dx has what pairs hand on already.
    """
    sums += slot * M * H_TILE
    weights += slot * W
    if PAIRS:
        dx = pairs.reach_queries(
            dx, x, of_x, token, length, scale, g, a, sums, weights, units,
            D, H_TILE, M, FAR, QUERIES, NUMBER, PRECISION,
        )  # fmt: skip
    else:
        dx = turns.reach_queries(
            dx, x, g, a, sums, weights, units, D, D_TILE, H_TILE, F, QUERIES, NUMBER, PRECISION
        )  # fmt: skip
    return dx


@triton.jit
def reach_keys_through_state(
    dy: tl.tensor,
    du: tl.tensor,
    y: tl.tensor,
    of_y: tl.tensor,
    token: tl.tensor,
    length: tl.tensor,
    u: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    slot: tl.tensor,
    units: tl.tensor,
    PAIRS: tl.constexpr,
    FAR: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """dy and du with what the queries after them hand on, out of a state over them, phi(q) m [dz, a].

    Where they are FAR, both have what pairs hand on already.
    """
    sums += slot * M * H_TILE
    weights += slot * W
    if PAIRS:
        dy, du = pairs.reach_keys(
            dy, du, y, of_y, token, length, u, sums, weights, units,
            D, H_TILE, M, FAR, KEYS, NUMBER, PRECISION,
        )  # fmt: skip
    else:
        dy, du = turns.reach_keys(
            dy, du, y, u, sums, weights, units, D, D_TILE, H_TILE, F, KEYS, NUMBER, PRECISION
        )  # fmt: skip
    return dy, du
