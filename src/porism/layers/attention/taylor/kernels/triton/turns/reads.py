"""What a tile of tokens reads from a state, and what reaches the tokens through it: a tile of F features at a time.

`units` is how many tiles of features to go through: all that are products, or none where the state is empty.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.turns.features import linear, repeats, turns
from porism.layers.kernels.triton import product


@triton.jit
def read_state(
    z: tl.tensor,
    total: tl.tensor,
    x: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    units: tl.tensor,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    F: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """z and the sum of weights with what queries find in a state over keys, phi(k) [v, 1]."""
    column = tl.arange(0, H_TILE)
    # The feature 1 comes after those that are products, and needs none.
    products: tl.constexpr = (D // 2 + 2) * D
    z += tl.load(sums + products * H_TILE + column).to(tl.float32)[None, :]
    total += tl.load(weights + products)
    left = product(x, repeats(D, D_TILE, F, NUMBER), PRECISION)
    for tile in range(units):
        feature = tile * F + tl.arange(0, F)
        state = tl.load(sums + feature[:, None] * H_TILE + column[None, :])
        weight = tl.load(weights + feature)
        # sum of w_ij [v_j, 1] = phi(q_i) . sum of phi(k_j) [v_j, 1]
        right = product(x, turns(tile, 0.5, D, D_TILE, F, NUMBER), PRECISION) - linear(tile, D, F)[None, :]
        phi = left * right
        z += product(phi.to(NUMBER), state, PRECISION)
        total += tl.sum(phi * weight[None, :], 1)
    return z, total


@triton.jit
def reach_queries(
    dx: tl.tensor,
    x: tl.tensor,
    g: tl.tensor,
    a: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    units: tl.tensor,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    F: tl.constexpr,
    QUERIES: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """dx with what a state over keys hands on to the queries that read it; [g, -a] is what reaches their sums."""
    column = tl.arange(0, H_TILE)
    repeat = repeats(D, D_TILE, F, NUMBER)
    left = product(x, repeat, PRECISION)
    dleft = tl.zeros((QUERIES, F), tl.float32)
    for tile in range(units):
        feature = tile * F + tl.arange(0, F)
        state = tl.load(sums + feature[:, None] * H_TILE + column[None, :])
        weight = tl.load(weights + feature)
        # dphi(q_i) = sum of phi(k_j) [v_j, 1] . g_i
        dphi = product(g, tl.trans(state), PRECISION) - a[:, None] * weight[None, :]
        # phi_f = x_i x_(i+s): each factor gets dphi times the other
        turn = turns(tile, 0.5, D, D_TILE, F, NUMBER)
        dleft += dphi * (product(x, turn, PRECISION) - linear(tile, D, F)[None, :])
        dx += product((dphi * left).to(NUMBER), tl.trans(turn), PRECISION)
    dx += product(dleft.to(NUMBER), tl.trans(repeat), PRECISION)
    return dx


@triton.jit
def reach_keys(
    dy: tl.tensor,
    du: tl.tensor,
    y: tl.tensor,
    u: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    units: tl.tensor,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H_TILE: tl.constexpr,
    F: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """dy and du with what the queries after them hand on, out of a state over them, phi(q) m [dz, a]."""
    column = tl.arange(0, H_TILE)
    repeat = repeats(D, D_TILE, F, NUMBER)
    # The feature 1 comes after those that are products, and needs none.
    products: tl.constexpr = (D // 2 + 2) * D
    du += tl.load(sums + products * H_TILE + column).to(tl.float32)[None, :]
    left = product(y, repeat, PRECISION)
    dleft = tl.zeros((KEYS, F), tl.float32)
    for tile in range(units):
        feature = tile * F + tl.arange(0, F)
        state = tl.load(sums + feature[:, None] * H_TILE + column[None, :])
        weight = tl.load(weights + feature)
        turn = turns(tile, 1.0, D, D_TILE, F, NUMBER)
        right = product(y, turn, PRECISION) - linear(tile, D, F)[None, :]
        # du_j = phi(k_j) . sum of phi(q_i) g_i
        du += product((left * right).to(NUMBER), state, PRECISION)
        # dphi(k_j) = sum of phi(q_i) g_i . [v_j, 1]
        dphi = product(u, tl.trans(state), PRECISION) - weight[None, :]
        dleft += dphi * right
        dy += product((dphi * left).to(NUMBER), tl.trans(turn), PRECISION)
    dy += product(dleft.to(NUMBER), tl.trans(repeat), PRECISION)
    return dy, du
