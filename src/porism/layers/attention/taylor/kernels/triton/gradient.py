"""The backward pass of a tile of queries, and of a tile of keys. The README of the layer derives every line.

g_i = m_i [dz_i, -a_i] is what reaches the sums of query i, with m_i = 1 / t_i and a_i = dz_i . z_i; m_i is a factor of
all that query i hands on, so it is multiplied in last, or into the weights. Where keys decay, w_ij is multiplied by
what is left of key j at query i, f_ij. What reaches log w_ij, w_ij (v_j . dz_i - a_i) m_i, is summed up by query and by
key.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.decay import decay_between, decay_from_start, logs_through_state
from porism.layers.attention.taylor.kernels.triton.reads import reach_keys_through_state, reach_queries_through_state
from porism.layers.kernels.triton import inverse, kept, numbers, product, rows, up_to, write_numbers, write_rows


@triton.jit
def reach_queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    far: tl.tensor,
    answer: tl.tensor,
    totals: tl.tensor,
    dz: tl.tensor,
    dq: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    handed: tl.tensor,
    decays: tl.tensor,
    dlogs: tl.tensor,
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
    width: tl.tensor,
    units: tl.tensor,
    places: tl.tensor,
    scale: tl.tensor,
    CAUSAL: tl.constexpr,
    DECAY: tl.constexpr,
    STATE: tl.constexpr,
    FAR: tl.constexpr,
    FIRST: tl.constexpr,
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
    """dq of QUERIES tokens of one query head, and their a, kept in `slopes` (B, A, T) for the pass over keys.

    What pairs of elements before their chunks hand on may be there already, FAR: far (B A, T, D), not yet scaled, by a
    kernel of its own. What the queries hand on, m dz, is then written to `handed` (B A, width, H).
    With DECAY, `decays` (N, 2, places) say how keys decay, and dlogs (B, A, T) gets what reaches the logarithms of a
    query's weights.
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
    # m_i = 1 / t_i, a_i = dz_i . z_i
    m = inverse(numbers(totals + n * T + begin, 0, length, QUERIES))
    a = tl.sum(g.to(tl.float32) * z.to(tl.float32), 1)
    write_numbers(inverses + n * T + begin, length, m, QUERIES)
    write_numbers(slopes + n * T + begin, length, a, QUERIES)
    if FAR:
        write_rows(handed + (n * width + begin) * H, H, length, g.to(tl.float32) * m[:, None], QUERIES, H, H_TILE)
    g = g.to(NUMBER)
    dx = tl.zeros((QUERIES, D_TILE), tl.float32)
    if DECAY:
        dlog = tl.zeros((QUERIES,), tl.float32)
    chunk = block // (CHUNK // QUERIES) if CAUSAL else 0

    if FAR:
        # Of the first chunk nothing has been written: nothing stands before it.
        dx += scale * rows(far + (n * T + begin) * D, 0, D, tl.where(chunk > 0, length, 0), QUERIES, D, D_TILE)
    if STATE:
        # Nothing stands before the first chunk but a state that was given.
        read = tl.where((chunk > 0) | FIRST | (not CAUSAL), units, 0)
        dx = reach_queries_through_state(
            dx, x, q, q_token, length, scale, g, a, sums, weights, n // R * slots + chunk, read,
            PAIRS, FAR, D, D_TILE, H_TILE, M, W, F, QUERIES, NUMBER, PRECISION,
        )  # fmt: skip
        if DECAY:
            dlog += logs_through_state(
                dx, x, g, a, sums, weights, n // R * slots + chunk,
                PAIRS, D, D_TILE, H_TILE, M, W, NUMBER, PRECISION,
            )  # fmt: skip

    if CAUSAL:
        # From here on positions are counted from the start of the chunk.
        chunk_begin = (chunk * CHUNK).to(tl.int64)
        k += batch * k_batch + head // R * k_head + chunk_begin * k_token
        v += batch * v_batch + head // R * v_head + chunk_begin * v_token
        padding += batch * T + chunk_begin
        place = (block - chunk * (CHUNK // QUERIES)) * QUERIES
        stop = T - chunk * CHUNK
        if DECAY:
            query = tl.arange(0, QUERIES)
            key = tl.arange(0, KEYS)
            decays += n // R * 2 * places + chunk_begin
            left = decay_from_start(decays, places, place)
            dx *= left
            dlog *= left
        for start in range(0, place, KEYS):
            if DECAY:
                dx, dlog = reach_queries_within(
                    dx, x, g, a, k, v, padding, start, k_token, v_token, stop,
                    None, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                    decay_between(decays, places, place, start + key)[None, :], dlog,
                )  # fmt: skip
            else:
                dx = reach_queries_within(
                    dx, x, g, a, k, v, padding, start, k_token, v_token, stop,
                    None, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                )  # fmt: skip
        if DECAY:
            of_queries = decay_between(decays, places, place + query, place)
            dx *= of_queries[:, None]
            dlog *= of_queries
        for i in tl.static_range(QUERIES // KEYS):
            if DECAY:
                seen = up_to(-i * KEYS, QUERIES, KEYS)
                later, earlier = (place + query)[:, None], (place + i * KEYS + key)[None, :]
                dx, dlog = reach_queries_within(
                    dx, x, g, a, k, v, padding, place + i * KEYS, k_token, v_token, stop,
                    -i * KEYS, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                    decay_between(decays, places, later, earlier, seen), dlog,
                )  # fmt: skip
            else:
                dx = reach_queries_within(
                    dx, x, g, a, k, v, padding, place + i * KEYS, k_token, v_token, stop,
                    -i * KEYS, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                )  # fmt: skip

    dx *= (m * scale)[:, None]
    if DECAY:
        write_numbers(dlogs + n * T + begin, length, dlog * m, QUERIES)
    write_rows(dq + batch * dq_batch + head * dq_head + begin * dq_token, dq_token, length, dx, QUERIES, D, D_TILE)


@triton.jit
def reach_queries_within(
    dx: tl.tensor,
    x: tl.tensor,
    g: tl.tensor,
    a: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    start: tl.tensor,
    k_token: tl.tensor,
    v_token: tl.tensor,
    length: tl.tensor,
    LEAD: tl.constexpr,
    PADDED: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
    decay: tl.tensor | None = None,
    dlog: tl.tensor | None = None,
) -> tl.tensor | tuple[tl.tensor, tl.tensor]:
    """dx with what KEYS more keys hand on, from `start` on; all queries look at them unless there is a LEAD.

    Where keys decay, by f_ij (1, KEYS) or (QUERIES, KEYS), dlog too.
    """
    y = rows(k, start, k_token, length, KEYS, D, D_TILE).to(NUMBER)
    u = rows(v, start, v_token, length, KEYS, H, H_TILE).to(NUMBER)
    s = product(x, tl.trans(y), PRECISION)
    # ds_ij = dw_ij (1 + s_ij), dw_ij = v_j . dz_i - a_i
    dw = product(g, tl.trans(u), PRECISION) - a[:, None]
    if LEAD is not None:
        dw = tl.where(up_to(LEAD, QUERIES, KEYS), dw, 0.0)
    if PADDED:
        dw = tl.where(kept(padding, start, length, KEYS, PADDED)[None, :], dw, 0.0)
    if decay is not None:
        dw *= decay
    ds = dw + dw * s
    # dq_i += sum of ds_ij k_j
    dx += product(ds.to(NUMBER), y, PRECISION)
    return dx if decay is None else (dx, dlog + tl.sum(dw * (1.0 + s * (1.0 + 0.5 * s)), 1))


@triton.jit
def reach_keys(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    far_dk: tl.tensor,
    far_dv: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    decays: tl.tensor,
    dlogs: tl.tensor,
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
    S: tl.tensor,
    G: tl.tensor,
    slots: tl.tensor,
    units: tl.tensor,
    places: tl.tensor,
    scale: tl.tensor,
    CAUSAL: tl.constexpr,
    DECAY: tl.constexpr,
    STATE: tl.constexpr,
    FAR: tl.constexpr,
    LAST: tl.constexpr,
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

    sums (N, slots, M, H_TILE) and weights (N, slots, W) are those over the queries after a chunk, phi(q) m [dz, a].
    What their pairs of elements hand on may be there already, FAR: far_dk (N, S, D) and far_dv (N, S, H), by kernels of
    their own. With DECAY, `decays` (N, 2, places) say how keys decay, and dlogs (N, S) gets what reaches the logarithms
    of a key's weights.
    """
    tl.static_assert(KEYS % QUERIES == 0)
    blocks = tl.cdiv(S, KEYS)
    block = tl.program_id(0) % blocks
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch = n // G
    head = n % G
    begin = (block * KEYS).to(tl.int64)
    length = S - block * KEYS
    k += batch * k_batch + head * k_head + begin * k_token
    y = rows(k, 0, k_token, length, KEYS, D, D_TILE)
    u = rows(v + batch * v_batch + head * v_head + begin * v_token, 0, v_token, length, KEYS, H, H_TILE).to(NUMBER)
    dy = tl.zeros((KEYS, D_TILE), tl.float32)
    du = tl.zeros((KEYS, H_TILE), tl.float32)
    chunk = block // (CHUNK // KEYS) if CAUSAL else 0
    if DECAY:
        dlog = tl.zeros((KEYS,), tl.float32)
        query = tl.arange(0, QUERIES)
        place = (block - chunk * (CHUNK // KEYS)) * KEYS
        key = place + tl.arange(0, KEYS)
        last = place + KEYS - 1
        decays += n * 2 * places + (chunk * CHUNK).to(tl.int64)
        of_keys = decay_between(decays, places, last, key)[:, None]
        far_dy = dy
        if STATE:
            # What comes through the state has decayed up to the end of the chunk.
            read = tl.where((chunk < slots - 1) | LAST, units, 0)
            dy, du = reach_keys_through_state(
                dy, du, y.to(NUMBER), k, k_token, length, u, sums, weights, n * slots + chunk, read,
                PAIRS, FAR, D, D_TILE, H_TILE, M, W, F, KEYS, NUMBER, PRECISION,
            )  # fmt: skip
            left = decay_between(decays, places, CHUNK - 1, key)
            ones = tl.full((KEYS,), 1.0, tl.float32)
            dlog += left * logs_through_state(
                dy, y.to(NUMBER), u, ones, sums, weights, n * slots + chunk,
                PAIRS, D, D_TILE, H_TILE, M, W, NUMBER, PRECISION,
            )  # fmt: skip
            far_dy = left[:, None] * dy
            du *= left[:, None]
            dy = tl.zeros((KEYS, D_TILE), tl.float32)

    if CAUSAL:
        # The queries come as they are, so the scale is with the keys here, and with the sum over queries. What reaches
        # the logarithms is summed over queries here and over keys there, and the differences of the two sums count: so
        # with DECAY every s is rounded as it is there.
        scaled = y.to(NUMBER) if DECAY else (y.to(tl.float32) * scale).to(NUMBER)
        for shared in range(R):
            # From here on positions are counted from the first of these keys.
            of_q = q + batch * q_batch + (head * R + shared) * q_head + begin * q_token
            of_dz = dz + batch * dz_batch + (head * R + shared) * dz_head + begin * dz_token
            of_m = inverses + (n * R + shared) * S + begin
            of_a = slopes + (n * R + shared) * S + begin
            for start in range(KEYS, tl.minimum(((chunk + 1) * (CHUNK // KEYS) - block) * KEYS, length), QUERIES):
                if DECAY:
                    of_queries = decay_between(decays, places, place + start + query, last)[None, :]
                    dy, du, dlog = reach_keys_within(
                        dy, du, scaled, u, of_q, of_dz, of_m, of_a, start, q_token, dz_token, length,
                        None, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                        of_queries * of_keys, dlog, scale,
                    )  # fmt: skip
                else:
                    dy, du = reach_keys_within(
                        dy, du, scaled, u, of_q, of_dz, of_m, of_a, start, q_token, dz_token, length,
                        None, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                    )  # fmt: skip
            for i in tl.static_range(KEYS // QUERIES):
                if DECAY:
                    seen = tl.trans(up_to(i * QUERIES, QUERIES, KEYS))
                    later, earlier = (place + i * QUERIES + query)[None, :], key[:, None]
                    dy, du, dlog = reach_keys_within(
                        dy, du, scaled, u, of_q, of_dz, of_m, of_a, i * QUERIES, q_token, dz_token, length,
                        i * QUERIES, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                        decay_between(decays, places, later, earlier, seen), dlog, scale,
                    )  # fmt: skip
                else:
                    dy, du = reach_keys_within(
                        dy, du, scaled, u, of_q, of_dz, of_m, of_a, i * QUERIES, q_token, dz_token, length,
                        i * QUERIES, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
                    )  # fmt: skip
        dy *= scale

    if DECAY:
        dy += far_dy
    elif STATE:
        if FAR:
            # Of the last chunk nothing has been written.
            there = tl.where(chunk < slots - 1, length, 0)
            dy += rows(far_dk + (n * S + begin) * D, 0, D, there, KEYS, D, D_TILE)
            du += rows(far_dv + (n * S + begin) * H, 0, H, there, KEYS, H, H_TILE)
        # Nothing comes after the last chunk but what reaches a state that was returned.
        read = tl.where((chunk < slots - 1) | LAST | (not CAUSAL), units, 0)
        dy, du = reach_keys_through_state(
            dy, du, y.to(NUMBER), k, k_token, length, u, sums, weights, n * slots + chunk, read,
            PAIRS, FAR, D, D_TILE, H_TILE, M, W, F, KEYS, NUMBER, PRECISION,
        )  # fmt: skip

    if PADDED:
        keep = kept(padding + batch * S + begin, 0, length, KEYS, PADDED).to(tl.float32)[:, None]
        dy *= keep
        du *= keep
    if DECAY:
        if PADDED:
            dlog = tl.where(kept(padding + batch * S + begin, 0, length, KEYS, PADDED), dlog, 0.0)
        write_numbers(dlogs + n * S + begin, length, dlog, KEYS)
    write_rows(dk + batch * dk_batch + head * dk_head + begin * dk_token, dk_token, length, dy, KEYS, D, D_TILE)
    write_rows(dv + batch * dv_batch + head * dv_head + begin * dv_token, dv_token, length, du, KEYS, H, H_TILE)


@triton.jit
def reach_keys_within(
    dy: tl.tensor,
    du: tl.tensor,
    scaled: tl.tensor,
    u: tl.tensor,
    q: tl.tensor,
    dz: tl.tensor,
    inverses: tl.tensor,
    slopes: tl.tensor,
    start: tl.tensor,
    q_token: tl.tensor,
    dz_token: tl.tensor,
    length: tl.tensor,
    LEAD: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    H: tl.constexpr,
    H_TILE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    NUMBER: tl.constexpr,
    PRECISION: tl.constexpr,
    decay: tl.tensor | None = None,
    dlog: tl.tensor | None = None,
    scale: tl.tensor | None = None,
) -> tuple[tl.tensor, ...]:
    """dy and du with what QUERIES more queries hand on, from `start` on; all look at these keys unless there is a LEAD.

    A key is a row here, and a query a column. m_i is multiplied into the series and its slope, and where keys decay
    by f_ij (KEYS, QUERIES), dlog too; the keys come without the `scale` then.
    """
    x = rows(q, start, q_token, length, QUERIES, D, D_TILE).to(NUMBER)
    g = rows(dz, start, dz_token, length, QUERIES, H, H_TILE).to(NUMBER)
    m = numbers(inverses, start, length, QUERIES)[None, :]
    a = numbers(slopes, start, length, QUERIES)[None, :]
    if scale is None:
        s = product(scaled, tl.trans(x), PRECISION)
    else:
        s = product(scaled, tl.trans((x.to(tl.float32) * scale).to(NUMBER)), PRECISION)
    if LEAD is not None:
        m = tl.where(tl.trans(up_to(LEAD, QUERIES, KEYS)), m, 0.0)
    if decay is not None:
        m *= decay
    # du_j += sum of w_ij m_i dz_i
    w = m + s * (m + s * (0.5 * m))
    du += product(w.to(NUMBER), g, PRECISION)
    # dk_j += sum of dw_ij (1 + s_ij) m_i q_i, dw_ij = v_j . dz_i - a_i
    off = a - product(u, tl.trans(g), PRECISION)
    ds = off * (m + s * m)
    # With the sign turned: two sums that products add to at a time would hold each other up.
    dy -= product(ds.to(NUMBER), x, PRECISION)
    return (dy, du) if decay is None else (dy, du, dlog - tl.sum(off * w, 1))
