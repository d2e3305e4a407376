"""The answers of a tile of queries: z = sum of w u / sum of w, over the keys before their chunk and those within it."""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.decay import decay_between, decay_from_start
from porism.layers.attention.taylor.kernels.triton.reads import read_state
from porism.layers.kernels.triton import inverse, kept, product, rows, settled, up_to, write_numbers, write_rows


@triton.jit
def answer_queries(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    seeing: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    far: tl.tensor,
    decays: tl.tensor,
    answer: tl.tensor,
    totals: tl.tensor,
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
    """QUERIES tokens of one query head, of which R share a key head.

    sums (N, slots, M, H_TILE) and weights (N, slots, M) are those over the keys before a chunk, phi(k) [v, 1].
    What pairs of elements add to z may be there already, FAR: far (B A, T, H), by a kernel of its own.
    With padding `seeing` (N) are the first queries that see a key. With DECAY, `decays` (N, 2, places) say how keys
    decay: what stands before the first of the queries is summed up as it has decayed there.
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
    chunk = block // (CHUNK // QUERIES) if CAUSAL else 0

    if FAR:
        # Of the first chunk nothing has been written: nothing stands before it.
        z += rows(far + (n * T + begin) * H, 0, H, tl.where(chunk > 0, length, 0), QUERIES, H, H_TILE)
    if STATE:
        # Nothing stands before the first chunk but a state that was given.
        read = tl.where((chunk > 0) | FIRST | (not CAUSAL), units, 0)
        z, total = read_state(
            z, total, x, q, q_token, length, scale, sums, weights, n // R * slots + chunk, read,
            PAIRS, FAR, D, D_TILE, H_TILE, M, W, F, QUERIES, NUMBER, PRECISION,
        )  # fmt: skip

    if CAUSAL:
        # From here on positions are counted from the start of the chunk.
        chunk_begin = (chunk * CHUNK).to(tl.int64)
        k += batch * k_batch + head // R * k_head + chunk_begin * k_token
        v += batch * v_batch + head // R * v_head + chunk_begin * v_token
        padding += batch * T + chunk_begin
        place = (block - chunk * (CHUNK // QUERIES)) * QUERIES
        stop = T - chunk * CHUNK
        query = tl.arange(0, QUERIES)
        key = tl.arange(0, KEYS)
        if DECAY:
            decays += n // R * 2 * places + chunk_begin
            left = decay_from_start(decays, places, place)
            z *= left
            total *= left
        for start in range(0, place, KEYS):
            decay = None
            if DECAY:
                decay = decay_between(decays, places, place, start + key)[None, :]
            z, total = weigh(
                z, total, x, k, v, padding, start, k_token, v_token, stop,
                None, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION, decay,
            )  # fmt: skip
        if DECAY:
            of_queries = decay_between(decays, places, place + query, place)
            z *= of_queries[:, None]
            total *= of_queries
        # On the diagonal a query attends to some of the keys only.
        for i in tl.static_range(QUERIES // KEYS):
            decay = None
            if DECAY:
                seen = up_to(-i * KEYS, QUERIES, KEYS)
                later, earlier = (place + query)[:, None], (place + i * KEYS + key)[None, :]
                decay = decay_between(decays, places, later, earlier, seen)
            z, total = weigh(
                z, total, x, k, v, padding, place + i * KEYS, k_token, v_token, stop,
                -i * KEYS, PADDED, D, D_TILE, H, H_TILE, QUERIES, KEYS, NUMBER, PRECISION, decay,
            )  # fmt: skip

    start = 0
    if PADDED:
        start = tl.load(seeing + n // R)
    total = settled(total, block * QUERIES + tl.arange(0, QUERIES) < start)
    z *= inverse(total)[:, None]
    write_rows(answer + batch * z_batch + head * z_head + begin * z_token, z_token, length, z, QUERIES, H, H_TILE)
    write_numbers(totals + n * T + begin, length, total, QUERIES)


@triton.jit
def weigh(
    z: tl.tensor,
    total: tl.tensor,
    x: tl.tensor,
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
) -> tuple[tl.tensor, tl.tensor]:
    """z and the sum of weights with KEYS more keys, from `start` on; all look at them unless there is a LEAD.

    Weights are multiplied by a `decay`, (1, KEYS) or (QUERIES, KEYS).
    """
    y = rows(k, start, k_token, length, KEYS, D, D_TILE).to(NUMBER)
    u = rows(v, start, v_token, length, KEYS, H, H_TILE).to(NUMBER)
    # w_ij = 1 + s_ij + s_ij^2 / 2
    s = product(x, tl.trans(y), PRECISION)
    w = 1.0 + s * (1.0 + 0.5 * s)
    if LEAD is not None:
        w = tl.where(up_to(LEAD, QUERIES, KEYS), w, 0.0)
    if PADDED:
        w = tl.where(kept(padding, start, length, KEYS, PADDED)[None, :], w, 0.0)
    if decay is not None:
        w *= decay
    z += product(w.to(NUMBER), u, PRECISION)
    total += tl.sum(w, 1)
    return z, total
