"""What a tile of tokens reads from a state, and what reaches the tokens through it: the products x_i x_j of one i at a
time.

`units` is how many i to go through in either half: D / 2, or none where the state is empty. `of_x` is where the
elements of x lie, and `scale` what x has been multiplied by.
"""

import triton
import triton.language as tl

from porism.layers.kernels.triton import ended, multiplied, product


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
    units: tl.tensor,
    D: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    FAR: tl.constexpr,
    QUERIES: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """z and the sum of weights with what queries find in a state over keys, phi(k) [v, 1].

    Where they are FAR, z has what pairs add already, and only the other rows are read.
    """
    half: tl.constexpr = D // 2
    row = tl.arange(0, D)
    # sum of w_ij [v_j, 1] = sum of [v_j, 1] + q_i . sum of k_j [v_j, 1] + 1/2 q_i q_i . sum of k_j k_j [v_j, 1]
    z += tl.load(sums + (M - 1) * H_TILE + tl.arange(0, H_TILE)).to(tl.float32)[None, :]
    z += product(x, _rows(sums, M - D - 1 + row, H_TILE), PRECISION)
    right = _selected(x, row, D, NUMBER, PRECISION)
    total += tl.load(weights + D * D + D)
    total += tl.sum(right * _slope(x, weights, 0.5, D, NUMBER, PRECISION), 1)
    if not FAR:
        # Of i and j in one half the state has x_i x_j and x_j x_i.
        right = (right * tl.where(row < half, 0.5, 1.0)[None, :]).to(NUMBER)
        # Elements are loaded one step ahead of the product that they are a factor of.
        left = _element(of_x, 0, token, length, scale, QUERIES, NUMBER)
        for i in range(units):
            after = _element(of_x, i + 1, token, length, scale, QUERIES, NUMBER)
            phi = multiplied(left[:, None], right)
            z = ended(z + product(phi, _rows(sums, i * D + row, H_TILE), PRECISION))
            left = after
        right = (0.5 * _selected(x, half + row % half, D, NUMBER, PRECISION)).to(NUMBER)
        left = _element(of_x, half, token, length, scale, QUERIES, NUMBER)
        other = _element(of_x, half + 1, token, length, scale, QUERIES, NUMBER)
        for unit in range(units // 2):
            # There is nothing after the last two.
            i = half + tl.minimum(2 * unit + 2, half - 2)
            after = _element(of_x, i, token, length, scale, QUERIES, NUMBER)
            other_after = _element(of_x, i + 1, token, length, scale, QUERIES, NUMBER)
            phi = multiplied(tl.where((row < half)[None, :], left[:, None], other[:, None]), right)
            z = ended(z + product(phi, _rows(sums, (half + unit) * D + row, H_TILE), PRECISION))
            left, other = after, other_after
    return z, total


@triton.jit
def reach_queries(
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
    units: tl.tensor,
    D: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    FAR: tl.constexpr,
    QUERIES: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """dx with what a state over keys hands on to the queries that read it; [g, -a] is what reaches their sums.

    Where they are FAR, dx has what pairs hand on already.
    """
    half: tl.constexpr = D // 2
    row = tl.arange(0, D)
    # dq_i = (sum of k_j [v_j, 1] + q_i . sum of k_j k_j [v_j, 1]) . [g_i, -a_i]
    dx -= a[:, None] * _slope(x, weights, 1.0, D, NUMBER, PRECISION)
    dx += product(g, tl.trans(_rows(sums, M - D - 1 + row, H_TILE)), PRECISION)
    if not FAR:
        right = _selected(g, tl.arange(0, H_TILE), H_TILE, NUMBER, PRECISION).to(NUMBER)
        for i in range(units):
            left = _element(of_x, i, token, length, scale, QUERIES, NUMBER)[:, None]
            state = tl.trans(_rows(sums, i * D + row, H_TILE))
            dx = ended(dx + product(multiplied(left, right), state, PRECISION))
        for i in range(units):
            left = _element(of_x, half + i, token, length, scale, QUERIES, NUMBER)[:, None]
            state = tl.trans(_rows(sums, _upper(i, D), H_TILE))
            dx = ended(dx + product(multiplied(left, right), state, PRECISION))
    return dx


@triton.jit
def reach_keys(
    dy: tl.tensor,
    du: tl.tensor,
    y: tl.tensor,
    of_y: tl.tensor,
    token: tl.tensor,
    length: tl.tensor,
    u: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    units: tl.tensor,
    D: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    FAR: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """dy and du with what the queries after them hand on, out of a state over them, phi(q) m [dz, a].

    Where they are FAR, both have what pairs hand on already.
    """
    half: tl.constexpr = D // 2
    row = tl.arange(0, D)
    linear = _rows(sums, M - D - 1 + row, H_TILE)
    # dv_j = sum of g_i + k_j . sum of q_i g_i + 1/2 k_j k_j . sum of q_i q_i g_i
    du += tl.load(sums + (M - 1) * H_TILE + tl.arange(0, H_TILE)).to(tl.float32)[None, :]
    du += product(y, linear, PRECISION)
    # dk_j = (sum of q_i [g_i, -a_i] + k_j . sum of q_i q_i [g_i, -a_i]) . [v_j, 1]
    dy -= _slope(y, weights, 1.0, D, NUMBER, PRECISION)
    dy += product(u, tl.trans(linear), PRECISION)
    if not FAR:
        right = _selected(u, tl.arange(0, H_TILE), H_TILE, NUMBER, PRECISION).to(NUMBER)
        own = (0.5 * _selected(y, row, D, NUMBER, PRECISION)).to(NUMBER)
        for i in range(units):
            left = _element(of_y, i, token, length, 1.0, KEYS, NUMBER)[:, None]
            state = _rows(sums, i * D + row, H_TILE)
            du += product(multiplied(left, own), state, PRECISION)
            # Products end in their order: with this one the other has.
            dy = ended(dy + product(multiplied(left, right), tl.trans(state), PRECISION))
        for i in range(units):
            left = _element(of_y, half + i, token, length, 1.0, KEYS, NUMBER)[:, None]
            state = _rows(sums, _upper(i, D), H_TILE)
            du += product(multiplied(left, own), state, PRECISION)
            dy = ended(dy + product(multiplied(left, right), tl.trans(state), PRECISION))
    return dy, du


@triton.jit
def share_of_row(row: tl.tensor, D: tl.constexpr) -> tl.tensor:
    """How much of rows of sums counts where queries read them: a half of products that stand there twice."""
    twice = (row < 3 * D * D // 4) & ((row >= D * D // 2) | (row % D < D // 2))
    return tl.where(twice, 0.5, 1.0)


@triton.jit
def _rows(sums: tl.tensor, row: tl.tensor, H_TILE: tl.constexpr) -> tl.tensor:
    return tl.load(sums + row[:, None] * H_TILE + tl.arange(0, H_TILE)[None, :])


@triton.jit
def _upper(i: tl.tensor, D: tl.constexpr) -> tl.tensor:
    """(D): the rows of x_(D/2+i) x_j for every j; for the lower ones the state has j first."""
    half: tl.constexpr = D // 2
    j = tl.arange(0, D)
    first = tl.where(j < half, j * D + half, half * D + j - half)
    return first + i * tl.where(j < half, 1, half)


@triton.jit
def _selected(
    x: tl.tensor, column: tl.tensor, WIDTH: tl.constexpr, NUMBER: tl.constexpr, PRECISION: tl.constexpr
) -> tl.tensor:
    """Columns of x, held by threads as a product leaves them: what is made of them by element stays where it is."""
    row = tl.arange(0, WIDTH)
    return product(x, (row[:, None] == column[None, :]).to(tl.float32).to(NUMBER), PRECISION)


@triton.jit
def _element(
    x: tl.tensor,
    i: tl.tensor,
    token: tl.tensor,
    length: tl.tensor,
    scale: tl.tensor,
    TOKENS: tl.constexpr,
    NUMBER: tl.constexpr,
) -> tl.tensor:
    """(TOKENS): x_i of every token, scaled and rounded as whole rows are."""
    row = tl.arange(0, TOKENS)
    found = tl.load(x + row * token + i, mask=row < length, other=0.0)
    return (found.to(tl.float32) * scale).to(NUMBER)


@triton.jit
def _slope(
    x: tl.tensor,
    weights: tl.tensor,
    SHARE: tl.constexpr,
    D: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """(tokens, D): sum of y_j + SHARE x_i sum of y_i y_j, y being those that the state has weighed."""
    row = tl.arange(0, D)
    pairs = tl.load(weights + row[:, None] * D + row[None, :])
    high = pairs.to(NUMBER)
    slope = product(x, high, PRECISION)
    if tl.float32 != NUMBER:
        # Weights are sums in float32, of which a factor of a product has the first bits only: the rest is a second one.
        slope += product(x, (pairs - high.to(tl.float32)).to(NUMBER), PRECISION)
    return SHARE * slope + tl.load(weights + D * D + row)[None, :]
