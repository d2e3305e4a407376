"""The backward pass of a tile of queries, and of a tile of keys. The README of the layer derives every line.

With L_i = m_i + log t_i a pair's part of all weights is exp(s_ij - L_i) where near and exp(-L_i) P(s_ij) where far: m_i
and t_i are needed no more. What reaches the sums is then [dz_i, -a_i], a_i = dz_i . z_i, and dz is dO of the README.
"""

import triton
import triton.language as tl

from porism.layers.attention.hybrid.kernels.triton.weights import LOG2_E, exact, series, slope
from porism.layers.attention.taylor.kernels.triton.gradient import reach_keys_within, reach_queries_within
from porism.layers.attention.taylor.kernels.triton.reads import reach_keys_through_state, reach_queries_through_state
from porism.layers.kernels.triton import inverse, kept, numbers, product, rows, up_to, write_numbers, write_rows


@triton.jit(do_not_specialize=["window"])
def reach_queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    answer: tl.tensor,
    totals: tl.tensor,
    peaks: tl.tensor,
    dz: tl.tensor,
    dq: tl.tensor,
    logs: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    q_batch: tl.tensor,
    q_head: tl.tensor,
    q_token: tl.tensor,
    k_batch: tl.tensor,
    k_head: tl.tensor,
    k_token: tl.tensor,
    v_batch: tl.tensor,
    v_head: tl.tensor,
    v_token: tl.tensor,
    z_batch: tl.tensor,
    z_head: tl.tensor,
    z_token: tl.tensor,
    dz_batch: tl.tensor,
    dz_head: tl.tensor,
    dz_token: tl.tensor,
    dq_batch: tl.tensor,
    dq_head: tl.tensor,
    dq_token: tl.tensor,
    T: tl.tensor,
    A: tl.tensor,
    slots: tl.tensor,
    units: tl.tensor,
    window: tl.tensor,
    scale: tl.tensor,
    STATE: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    PAIRS: tl.constexpr,
    F: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """dq of QUERIES tokens of one query head, in the order of the forward pass.

    For the pass over keys it keeps L to the base 2, exp(-L) and a, each (B, A, T).
    """
    tl.static_assert(QUERIES % KEYS == 0)
    blocks = tl.cdiv(T, QUERIES)
    block = tl.program_id(0) % blocks
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch = n // A
    head = n % A
    begin = (block * QUERIES).to(tl.int64)
    length = T - block * QUERIES
    q += batch * q_batch + head * q_head + begin * q_token
    x = (rows(q, 0, q_token, length, QUERIES, D, D_TILE).to(tl.float32) * scale).to(NUMBER)
    z = rows(answer + batch * z_batch + head * z_head + begin * z_token, 0, z_token, length, QUERIES, H, H_TILE)
    g = rows(dz + batch * dz_batch + head * dz_head + begin * dz_token, 0, dz_token, length, QUERIES, H, H_TILE)
    t = numbers(totals + n * T + begin, 0, length, QUERIES)
    peak = numbers(peaks + n * T + begin, 0, length, QUERIES) * LOG2_E
    # L_i = m_i + log t_i, and no weight at all for a query that attends to no key
    log = tl.where(t == 0.0, float("inf"), peak + tl.log2(tl.where(t == 0.0, 1.0, t)))
    # exp(-L_i) = exp(-m_i) / t_i, a_i = dz_i . z_i. It is for far keys, and where m_i is below 0 there are none.
    m = tl.exp2(-tl.maximum(peak, 0.0)) * inverse(t)
    a = tl.sum(g.to(tl.float32) * z.to(tl.float32), 1)
    write_numbers(logs + n * T + begin, length, log, QUERIES)
    write_numbers(inverses + n * T + begin, length, m, QUERIES)
    write_numbers(slopes + n * T + begin, length, a, QUERIES)
    g = g.to(NUMBER)
    dx = tl.zeros((QUERIES, D_TILE), tl.float32)
    # So many keys are far from all these queries.
    far = tl.maximum(block * QUERIES - window + 1, 0)
    chunk = far // CHUNK
    if STATE:
        read = tl.where(chunk > 0, units, 0)
        dx = reach_queries_through_state(
            dx, x, q, q_token, length, scale, g, a, sums, weights, n // R * slots + chunk, read,
            PAIRS, False, D, D_TILE, H_TILE, M, W, F, QUERIES, NUMBER, PRECISION,
        )  # fmt: skip

    # From here on positions are counted from the start of the chunk.
    chunk_begin = (chunk * CHUNK).to(tl.int64)
    k += batch * k_batch + head // R * k_head + chunk_begin * k_token
    v += batch * v_batch + head // R * v_head + chunk_begin * v_token
    padding += batch * T + chunk_begin
    place = block * QUERIES - chunk * CHUNK
    stop = T - chunk * CHUNK
    far = (far - chunk * CHUNK) // KEYS * KEYS
    # From here on keys are near to all these queries, or ahead.
    near = tl.cdiv(tl.maximum(place + QUERIES - window, 0), KEYS) * KEYS
    for start in range(0, far, KEYS):
        dx = reach_queries_within(
            dx, x, g, a, k, v, padding, start, k_token, v_token, stop,
            None, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip
    dx *= m[:, None]
    x = rows(q, 0, q_token, length, QUERIES, D, D_TILE).to(NUMBER)
    for start in range(far, near, KEYS):
        dx = _reach_queries_near(
            dx, x, g, a, log, m, k, v, padding, start, place - start, k_token, v_token, stop, window, scale,
            True, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip
    for start in range(near, place + QUERIES, KEYS):
        dx = _reach_queries_near(
            dx, x, g, a, log, m, k, v, padding, start, place - start, k_token, v_token, stop, window, scale,
            False, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip

    dx *= scale
    write_rows(dq + batch * dq_batch + head * dq_head + begin * dq_token, dq_token, length, dx, QUERIES, D, D_TILE)


@triton.jit
def _reach_queries_near(
    dx: tl.tensor,
    x: tl.tensor,
    g: tl.tensor,
    a: tl.tensor,
    log: tl.tensor,
    m: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    start: tl.tensor,
    lead: tl.tensor,
    k_token: tl.tensor,
    v_token: tl.tensor,
    length: tl.tensor,
    window: tl.tensor,
    scale: tl.tensor,
    FAR: tl.constexpr,
    PADDED: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """dx with what KEYS more keys hand on, from `start` on; some of them may be FAR."""
    y = rows(k, start, k_token, length, KEYS, D, D_TILE).to(NUMBER)
    u = rows(v, start, v_token, length, KEYS, H, H_TILE).to(NUMBER)
    s = product(x, tl.trans(y), PRECISION)
    seen = up_to(lead, QUERIES, KEYS)
    if PADDED:
        seen = seen & kept(padding, start, length, KEYS, PADDED)[None, :]
    near = seen
    if FAR:
        far = seen & up_to(lead - window, QUERIES, KEYS)
        near = seen & ~far
    # w'_ij = exp(s_ij - L_i) where near, exp(-L_i) (1 + s_ij) where far
    w = exact(tl.where(near, s, float("-inf")), log[:, None], scale)
    if FAR:
        w = tl.where(far, slope(s, m[:, None], scale), w)
    # ds_ij = dw_ij w'_ij, dw_ij = v_j . dz_i - a_i
    ds = (product(g, tl.trans(u), PRECISION) - a[:, None]) * w
    # dq_i += sum of ds_ij k_j
    return dx + product(ds.to(NUMBER), y, PRECISION)


@triton.jit(do_not_specialize=["window"])
def reach_keys(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    logs: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    dz: tl.tensor,
    dk: tl.tensor,
    dv: tl.tensor,
    q_batch: tl.tensor,
    q_head: tl.tensor,
    q_token: tl.tensor,
    k_batch: tl.tensor,
    k_head: tl.tensor,
    k_token: tl.tensor,
    v_batch: tl.tensor,
    v_head: tl.tensor,
    v_token: tl.tensor,
    dz_batch: tl.tensor,
    dz_head: tl.tensor,
    dz_token: tl.tensor,
    dk_batch: tl.tensor,
    dk_head: tl.tensor,
    dk_token: tl.tensor,
    dv_batch: tl.tensor,
    dv_head: tl.tensor,
    dv_token: tl.tensor,
    T: tl.tensor,
    G: tl.tensor,
    slots: tl.tensor,
    units: tl.tensor,
    window: tl.tensor,
    scale: tl.tensor,
    STATE: tl.constexpr,
    PADDED: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    M: tl.constexpr,
    W: tl.constexpr,
    PAIRS: tl.constexpr,
    F: tl.constexpr,
    CHUNK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """dk and dv of KEYS tokens of one key head, over the R query heads that share it.

    sums (N, slots, M, H_TILE) and weights are those over the queries after a chunk, phi(q) exp(-L) [dz, a]. The first
    state is read whose queries are far from all these keys; before it queries are taken pair by pair.
    """
    tl.static_assert(KEYS % QUERIES == 0)
    blocks = tl.cdiv(T, KEYS)
    block = tl.program_id(0) % blocks
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch = n // G
    head = n % G
    begin = (block * KEYS).to(tl.int64)
    length = T - block * KEYS
    k += batch * k_batch + head * k_head + begin * k_token
    y = rows(k, 0, k_token, length, KEYS, D, D_TILE)
    u = rows(v + batch * v_batch + head * v_head + begin * v_token, 0, v_token, length, KEYS, H, H_TILE).to(NUMBER)
    dy = tl.zeros((KEYS, D_TILE), tl.float32)
    du = tl.zeros((KEYS, H_TILE), tl.float32)
    # Queries from this chunk on are far from all these keys.
    chunk = tl.cdiv(block * KEYS + KEYS - 1 + window, CHUNK)
    # Positions are counted from the first of these keys. Up to `near` no query is far from any of them, and from `far`
    # on every query is far from all.
    near = tl.minimum(window // QUERIES * QUERIES, length)
    far = tl.minimum(tl.cdiv(KEYS - 1 + window, QUERIES) * QUERIES, length)
    stop = tl.minimum(chunk * CHUNK - block * KEYS, length)
    scaled = (y.to(tl.float32) * scale).to(NUMBER)
    y = y.to(NUMBER)
    keep = kept(padding + batch * T + begin, 0, length, KEYS, PADDED)
    for shared in range(R):
        of_q = q + batch * q_batch + (head * R + shared) * q_head + begin * q_token
        of_dz = dz + batch * dz_batch + (head * R + shared) * dz_head + begin * dz_token
        of_log = logs + (n * R + shared) * T + begin
        of_m = inverses + (n * R + shared) * T + begin
        of_a = slopes + (n * R + shared) * T + begin
        for start in range(0, near, QUERIES):
            dy, du = _reach_keys_near(
                dy, du, y, u, keep, of_q, of_dz, of_log, of_a, start, q_token, dz_token, length, window, scale,
                False, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
            )  # fmt: skip
        for start in range(near, far, QUERIES):
            dy, du = _reach_keys_near(
                dy, du, y, u, keep, of_q, of_dz, of_log, of_a, start, q_token, dz_token, length, window, scale,
                True, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
            )  # fmt: skip
        for start in range(far, stop, QUERIES):
            dy, du = reach_keys_within(
                dy, du, scaled, u, of_q, of_dz, of_m, of_a, start, q_token, dz_token, length,
                None, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
            )  # fmt: skip
    dy *= scale

    if STATE:
        # A slot has the queries after its own chunk, and the last one none.
        slot = tl.minimum(chunk, slots) - 1
        read = tl.where(chunk < slots, units, 0)
        dy, du = reach_keys_through_state(
            dy, du, y, k, k_token, length, u, sums, weights, n * slots + slot, read,
            PAIRS, False, D, D_TILE, H_TILE, M, W, F, KEYS, NUMBER, PRECISION,
        )  # fmt: skip

    if PADDED:
        dy = tl.where(keep[:, None], dy, 0.0)
        du = tl.where(keep[:, None], du, 0.0)
    write_rows(dk + batch * dk_batch + head * dk_head + begin * dk_token, dk_token, length, dy, KEYS, D, D_TILE)
    write_rows(dv + batch * dv_batch + head * dv_head + begin * dv_token, dv_token, length, du, KEYS, H, H_TILE)


@triton.jit
def _reach_keys_near(
    dy: tl.tensor,
    du: tl.tensor,
    y: tl.tensor,
    u: tl.tensor,
    keep: tl.tensor,
    q: tl.tensor,
    dz: tl.tensor,
    logs: tl.tensor,
    slopes: tl.tensor,
    start: tl.tensor,
    q_token: tl.tensor,
    dz_token: tl.tensor,
    length: tl.tensor,
    window: tl.tensor,
    scale: tl.tensor,
    FAR: tl.constexpr,
    PADDED: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """dy and du with what QUERIES more queries hand on, from `start` on; from some of them keys may be FAR.

    A key is a row here, and a query a column.
    """
    x = rows(q, start, q_token, length, QUERIES, D, D_TILE).to(NUMBER)
    g = rows(dz, start, dz_token, length, QUERIES, H, H_TILE).to(NUMBER)
    log = numbers(logs, start, length, QUERIES)[None, :]
    a = numbers(slopes, start, length, QUERIES)[None, :]
    s = product(y, tl.trans(x), PRECISION)
    seen = tl.trans(up_to(start, QUERIES, KEYS))
    if PADDED:
        # No peak counts a key that is padding, so its weight could be without bound.
        seen = seen & keep[:, None]
    near = seen
    if FAR:
        far = seen & tl.trans(up_to(start - window, QUERIES, KEYS))
        near = seen & ~far
    # w_ij = exp(s_ij - L_i) where near, exp(-L_i) P(s_ij) where far; its slope w'_ij likewise
    w = exact(tl.where(near, s, float("-inf")), log, scale)
    dw = w
    if FAR:
        # A sum with a far key in it is 1/2 at least.
        m = tl.exp2(-tl.maximum(log, -2.0))
        dw = tl.where(far, slope(s, m, scale), w)
        w = tl.where(far, series(s, m, scale), w)
    # du_j += sum of w_ij dz_i
    du += product(w.to(NUMBER), g, PRECISION)
    # dk_j += sum of ds_ij q_i, ds_ij = (v_j . dz_i - a_i) w'_ij
    ds = (a - product(u, tl.trans(g), PRECISION)) * dw
    # With the sign turned: two sums that products add to at a time would hold each other up.
    dy -= product(ds.to(NUMBER), x, PRECISION)
    return dy, du
