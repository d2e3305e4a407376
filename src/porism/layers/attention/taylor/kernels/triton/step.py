"""One token that continues a text: the state moves on by one key and is read by the token's queries, in one kernel.

The state is as the layer has it, features 1, x and the turns. It is read once and written once, which is nearly all
that there is to do: 2 M (H + 1) numbers for 4 operations each. In a chunk it is read only, and the last token of the
chunk writes what all its keys add.
"""

import triton
import triton.language as tl

from porism.layers.kernels.triton import inverse, settled


@triton.jit
def factors_of(feature: tl.tensor, D: tl.constexpr) -> tl.tuple:
    """For features of x: which elements they are products of, whether they have such a left and right one, c_s."""
    there = feature < 1 + D + (D // 2 + 1) * D
    # Feature 1 + D + s D + i is x_i x_(i+s), before those stand x_i alone and 1: a factor that is missing is 1.
    pair = feature - 1 - D
    turn = pair // D
    left = tl.where(feature <= D, feature - 1, pair % D)
    right = (pair + turn) % D
    has_left = there & (feature > 0)
    has_right = there & (feature > D)
    own = has_right & ((turn == 0) | (turn == D // 2))
    return left, right, has_left, has_right, tl.where(there, tl.where(own, 0.7071067811865476, 1.0), 0.0)


@triton.jit
def features_of_key(k: tl.tensor, factors: tl.tuple) -> tl.tensor:
    """phi(k), the features that these factors are of."""
    left, right, has_left, has_right, factor = factors
    key = factor * tl.load(k + left, mask=has_left, other=1.0).to(tl.float32)
    return key * tl.load(k + right, mask=has_right, other=1.0).to(tl.float32)


@triton.jit
def features_of_queries(of_q: tl.tensor, real: tl.tensor, scale: tl.tensor, factors: tl.tuple) -> tl.tensor:
    """phi(scale q) of rows of pointers (R, 1), those that are real: (R, F)."""
    left, right, has_left, has_right, factor = factors
    query = tl.load(of_q + left[None, :], mask=real & has_left[None, :], other=1.0).to(tl.float32)
    query *= tl.where(has_left, scale, 1.0)[None, :]
    query *= tl.load(of_q + right[None, :], mask=real & has_right[None, :], other=1.0).to(tl.float32)
    return query * tl.where(has_right, scale, 1.0)[None, :] * factor[None, :]


@triton.jit
def move_on(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    padding: tl.tensor,
    decays: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    sums: tl.tensor,
    weights: tl.tensor,
    answer: tl.tensor,
    totals: tl.tensor,
    new_sums: tl.tensor,
    new_weights: tl.tensor,
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
    new_s_head: tl.tensor,
    new_s_feature: tl.tensor,
    new_w_head: tl.tensor,
    new_w_feature: tl.tensor,
    G: tl.tensor,
    n_keys: tl.tensor,
    scale: tl.tensor,
    PADDED: tl.constexpr,
    DECAY: tl.constexpr,
    CHUNK: tl.constexpr,
    R: tl.constexpr,
    R_TILE: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    COLUMNS: tl.constexpr,
    F: tl.constexpr,
) -> None:
    """COLUMNS of the values of one key head, and of the answers of the R query heads that share it.

    With a CHUNK the state takes up its keys (N, n_keys, D) and values (N, n_keys, H) besides. With
    DECAY the state decays by exp(`decays`), (B, G), first.
    """
    n = tl.program_id(0).to(tl.int64)
    batch = n // G
    head = n % G
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < H
    k += batch * k_batch + head * k_head
    sums += batch * s_batch + head * s_head
    weights += batch * w_batch + head * w_head
    new_sums += n * new_s_head
    new_weights += n * new_w_head
    value = tl.load(v + batch * v_batch + head * v_head + column, mask=inside, other=0.0).to(tl.float32)
    keep = 1.0
    if PADDED:
        keep = tl.where(tl.load(padding + batch) == 0, 1.0, 0.0)
    if DECAY:
        decay = tl.exp(tl.load(decays + n))
    shared = tl.arange(0, R_TILE)
    of_q = (q + batch * q_batch + (head * R + shared) * q_head)[:, None]
    real = (shared < R)[:, None]
    M: tl.constexpr = 1 + D + (D // 2 + 1) * D
    # All programs with columns of these values need the weights, and one of them writes.
    writes = tl.where(tl.program_id(1) == 0, 1, 0)
    # Features stay apart until the end: no exchange between threads on the way.
    read = tl.zeros((R_TILE, F, COLUMNS), tl.float32)
    total = tl.zeros((R_TILE, F), tl.float32)
    for start in range(0, M, F):
        feature = start + tl.arange(0, F)
        there = feature < M
        factors = factors_of(feature, D)
        key = features_of_key(k, factors) * keep
        # S = a S + phi(k) [v, 1]
        place = sums + feature[:, None] * s_feature + column[None, :]
        mask = there[:, None] & inside[None, :]
        state = tl.load(place, mask=mask, other=0.0)
        weight = tl.load(weights + feature * w_feature, mask=there, other=0.0)
        if DECAY:
            state *= decay
            weight *= decay
        state += key[:, None] * value[None, :]
        weight += key
        if CHUNK:
            for i in range(n_keys):
                key = features_of_key(keys + (n * n_keys + i) * D, factors)
                beside = tl.load(values + (n * n_keys + i) * H + column, mask=inside, other=0.0).to(tl.float32)
                state += key[:, None] * beside[None, :]
                weight += key
        tl.store(new_sums + feature[:, None] * new_s_feature + column[None, :], state, mask=mask)
        tl.store(new_weights + feature * new_w_feature, weight, mask=feature < M * writes)
        # z = phi(q) S, t = phi(q) S 1
        query = features_of_queries(of_q, real, scale, factors)
        read += query[:, :, None] * state[None, :, :]
        total += query * weight[None, :]

    # The first feature is 1, so that its sum is the number of keys.
    before = tl.load(weights)
    if DECAY:
        before *= decay
    t = settled(tl.sum(total, 1), before + keep == 0.0)
    z = tl.sum(read, 1) * inverse(t)[:, None]
    rows = n * R + shared
    tl.store(answer + rows[:, None] * H + column[None, :], z.to(answer.dtype.element_ty), mask=real & inside[None, :])
    tl.store(totals + rows, t, mask=shared < R * writes)
