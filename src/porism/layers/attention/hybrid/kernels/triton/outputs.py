"""The answers of a tile of queries: far keys out of a state and by the series, near ones by exp, one denominator."""

import triton
import triton.language as tl

from porism.layers.attention.hybrid.kernels.triton.weights import LOG2_E, LOWEST, exact, series
from porism.layers.attention.taylor.kernels.triton.outputs import weigh
from porism.layers.attention.taylor.kernels.triton.reads import read_state
from porism.layers.kernels.triton import inverse, kept, product, rows, settled, up_to, write_numbers, write_rows


@triton.jit(do_not_specialize=["window"])
def answer_queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    seeing: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    answer: tl.tensor,
    totals: tl.tensor,
    peaks: tl.tensor,
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
    """QUERIES tokens of one query head, of which R share a key head.

    sums (N, slots, M, H_TILE) and weights (N, slots, M) are those over the keys before a chunk, phi(k) [v, 1]. The last
    state is read whose keys are far from all these queries; after it keys are taken pair by pair. With padding
    `seeing` (N) are the first queries that see a key, and so the positions of the first keys.
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
    z = tl.zeros((QUERIES, H_TILE), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    # So many keys are far from all these queries.
    far = tl.maximum(block * QUERIES - window + 1, 0)
    chunk = far // CHUNK
    if STATE:
        read = tl.where(chunk > 0, units, 0)
        z, total = read_state(
            z, total, x, q, q_token, length, scale, sums, weights, n // R * slots + chunk, read,
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
        z, total = weigh(
            z, total, x, k, v, padding, start, k_token, v_token, stop,
            None, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip
    x = rows(q, 0, q_token, length, QUERIES, D, D_TILE).to(NUMBER)
    first = 0
    if PADDED:
        first = tl.load(seeing + n // R)
    query = block * QUERIES + tl.arange(0, QUERIES)
    # m_i = the largest near s_ij, and not below 0 where query i sees a far key
    peak = tl.where(query - window >= first, 0.0, LOWEST)
    for start in range(far, near, KEYS):
        z, total, peak = _weigh_near(
            z, total, peak, x, k, v, padding, start, place - start, k_token, v_token, stop, window, scale,
            True, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip
    for start in range(near, place + QUERIES, KEYS):
        z, total, peak = _weigh_near(
            z, total, peak, x, k, v, padding, start, place - start, k_token, v_token, stop, window, scale,
            False, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION,
        )  # fmt: skip

    total = settled(total, query < first)
    peak = tl.where(query < first, 0.0, peak)
    z *= inverse(total)[:, None]
    write_rows(answer + batch * z_batch + head * z_head + begin * z_token, z_token, length, z, QUERIES, H, H_TILE)
    write_numbers(totals + n * T + begin, length, total, QUERIES)
    write_numbers(peaks + n * T + begin, length, peak, QUERIES)


@triton.jit
def _weigh_near(
    z: tl.tensor,
    total: tl.tensor,
    peak: tl.tensor,
    x: tl.tensor,
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
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """z, the sum of weights and their peak with KEYS more keys, from `start` on; some of them may be FAR."""
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
    near_s = tl.where(near, s, float("-inf"))
    higher = tl.maximum(peak, tl.max(near_s, 1) * scale)
    log = higher * LOG2_E
    # w_ij = exp(s_ij - m_i) where near, exp(-m_i) P(s_ij) where far
    w = exact(near_s, log[:, None], scale)
    if FAR:
        w = tl.where(far, series(s, tl.exp2(-tl.maximum(log, 0.0))[:, None], scale), w)
    # What was summed so far counts from a lower peak.
    fade = tl.exp2((peak - higher) * LOG2_E)
    total = total * fade + tl.sum(w, 1)
    z = z * fade[:, None] + product(w.to(NUMBER), u, PRECISION)
    return z, total, higher
