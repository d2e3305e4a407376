"""One token that continues a text in chunks: it reads the sums before its chunk, which take up all its keys at its end.

To read M (H + 1) numbers is nearly all that there is to do for a token, and to write as many once a chunk.
"""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.step import factors_of, features_of_queries
from porism.layers.kernels.triton import inverse


@triton.jit
def answer_in_chunk(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    answer: tl.tensor,
    new_keys: tl.tensor,
    new_values: tl.tensor,
    q_batch: tl.tensor,
    q_head: tl.tensor,
    k_batch: tl.tensor,
    k_head: tl.tensor,
    v_batch: tl.tensor,
    v_head: tl.tensor,
    s_batch: tl.tensor,
    s_head: tl.tensor,
    s_feature: tl.tensor,
    w_batch: tl.tensor,
    w_head: tl.tensor,
    w_feature: tl.tensor,
    G: tl.tensor,
    n_keys: tl.tensor,
    scale: tl.tensor,
    R: tl.constexpr,
    R_TILE: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    COLUMNS: tl.constexpr,
    F: tl.constexpr,
    KEYS: tl.constexpr,
    ELEMENTS: tl.constexpr,
) -> None:
    """As `move_on`, from the sums before a chunk and its keys one by one, KEYS at a time: no sums are written.

    The keys (N, n_keys, D) and values (N, n_keys, H) are copied, this token's behind them.
    """
    n = tl.program_id(0).to(tl.int64)
    batch = n // G
    head = n % G
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < H
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    sums += batch * s_batch + head * s_head
    weights += batch * w_batch + head * w_head
    shared = tl.arange(0, R_TILE)
    of_q = (q + batch * q_batch + (head * R + shared) * q_head)[:, None]
    real = (shared < R)[:, None]
    M: tl.constexpr = 1 + D + (D // 2 + 1) * D
    read = tl.zeros((R_TILE, F, COLUMNS), tl.float32)
    total = tl.zeros((R_TILE, F), tl.float32)
    for start in range(0, M, F):
        feature = start + tl.arange(0, F)
        there = feature < M
        place = sums + feature[:, None] * s_feature + column[None, :]
        state = tl.load(place, mask=there[:, None] & inside[None, :], other=0.0)
        weight = tl.load(weights + feature * w_feature, mask=there, other=0.0)
        query = features_of_queries(of_q, real, scale, factors_of(feature, D))
        read += query[:, :, None] * state[None, :, :]
        total += query * weight[None, :]
    z = tl.sum(read, 1)
    t = tl.sum(total, 1)

    # All programs with columns of these values need the keys, and one of them copies.
    copies = tl.where(tl.program_id(1) == 0, n_keys + 1, 0)
    for start in range(0, n_keys + 1, KEYS):
        token = start + tl.arange(0, KEYS)
        old = (token < n_keys)[:, None]
        this = (token == n_keys)[:, None]
        s = tl.zeros((R_TILE, KEYS), tl.float32)
        for first in tl.static_range(0, D, ELEMENTS):
            element = first + tl.arange(0, ELEMENTS)
            key = tl.load(keys + (n * n_keys + token)[:, None] * D + element[None, :], mask=old, other=0.0)
            own = tl.load(k + element[None, :] + 0 * token[:, None], mask=this, other=0.0)
            key = tl.where(this, own, key)
            copied = new_keys + (n * (n_keys + 1) + token)[:, None] * D + element[None, :]
            tl.store(copied, key, mask=(token < copies)[:, None] & (element >= 0)[None, :])
            query = tl.load(of_q + element[None, :], mask=real & (element >= 0)[None, :], other=0.0)
            s += tl.sum(query.to(tl.float32)[:, None, :] * key.to(tl.float32)[None, :, :], 2)
        s *= scale
        # w = 1 + s + s^2 / 2
        w = tl.where((token <= n_keys)[None, :], 1.0 + s * (1.0 + 0.5 * s), 0.0)
        there = old & inside[None, :]
        value = tl.load(values + (n * n_keys + token)[:, None] * H + column[None, :], mask=there, other=0.0)
        own = tl.load(v + column[None, :] + 0 * token[:, None], mask=this & inside[None, :], other=0.0)
        value = tl.where(this, own, value)
        copied = new_values + (n * (n_keys + 1) + token)[:, None] * H + column[None, :]
        tl.store(copied, value, mask=(old | this) & inside[None, :])
        z += tl.sum(w[:, :, None] * value.to(tl.float32)[None, :, :], 1)
        t += tl.sum(w, 1)
    z *= inverse(t)[:, None]
    rows = n * R + shared
    tl.store(answer + rows[:, None] * H + column[None, :], z.to(answer.dtype.element_ty), mask=real & inside[None, :])
