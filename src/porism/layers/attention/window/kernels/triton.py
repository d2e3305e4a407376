"""Attention within a window on a GPU: a tile of queries meets the keys from its first one's window to its last one's.

    forward     o_i = sum over j of p_ij v_j,   p_ij = exp(scale q_i . k_j) / their sum,   L_i = log of that sum
    backward    dq_i = scale sum over j of ds_ij k_j,   ds_ij = p_ij (do_i . v_j - do_i . o_i)
                dk_j = scale sum over i of ds_ij q_i,   dv_j = sum over i of p_ij do_i

Nothing of size T W is written: the backward pass computes p again from L. A window is two numbers that a kernel is
handed, so that another width compiles nothing anew. The bits are the same on every run: one program takes each sum.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.kernels.triton import kept, numbers, product, rows, write_numbers, write_rows

LOG2_E = 1.4426950408889634

SIZES = ["T", "S", "A", "G", "window", "ahead", "offset"]
"""Numbers that Triton would compile a kernel for once more where they are 1, or multiples of 16."""


class WindowLaunch(NamedTuple):
    """Rows that a program owns, rows it meets at a time, and how it is compiled."""

    own: int
    met: int
    warps: int
    stages: int


def launch(width: int, dtype: torch.dtype) -> WindowLaunch:
    """The one place to tune; rows of more bytes leave room for fewer of them."""
    row = max(width, 32) * dtype.itemsize
    return WindowLaunch(64, 64, 4, 2) if row <= 256 else WindowLaunch(32, 32, 4, 1)


@triton.jit
def _keys_of(place: tl.tensor, window: tl.tensor, ahead: tl.tensor, BLOCK: tl.constexpr, INSIDE: tl.constexpr) -> Any:
    """The first and the last key that the query at a position attends to."""
    if BLOCK:
        first = place // window * window
        last = place if INSIDE else first + window - 1
    else:
        first = place - window + 1
        last = place + ahead
    return first, last


@triton.jit
def _queries_of(key: tl.tensor, window: tl.tensor, ahead: tl.tensor, BLOCK: tl.constexpr, INSIDE: tl.constexpr) -> Any:
    """The positions of the first and the last query that attend to a key."""
    if BLOCK:
        start = key // window * window
        first = key if INSIDE else start
        last = start + window - 1
    else:
        first = key - ahead
        last = key + window - 1
    return first, last


@triton.jit
def _logits(
    x: tl.tensor, y: tl.tensor, place: tl.tensor, key: tl.tensor, there: tl.tensor, factor: tl.tensor,
    window: tl.tensor, ahead: tl.tensor, BLOCK: tl.constexpr, INSIDE: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """log2 of exp(scale q . k) for queries (rows) and keys (columns), -inf where a query does not attend to a key."""
    s = product(x, tl.trans(y), PRECISION) * factor
    first, last = _keys_of(place, window, ahead, BLOCK, INSIDE)
    seen = (key[None, :] >= first[:, None]) & (key[None, :] <= last[:, None]) & there[None, :]
    return tl.where(seen, s, float("-inf"))


@triton.jit(do_not_specialize=SIZES)
def _attend(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, padding: tl.tensor, answer: tl.tensor, logs: tl.tensor,
    q_batch: tl.tensor, q_head: tl.tensor, q_token: tl.tensor,
    k_batch: tl.tensor, k_head: tl.tensor, k_token: tl.tensor,
    v_batch: tl.tensor, v_head: tl.tensor, v_token: tl.tensor,
    o_batch: tl.tensor, o_head: tl.tensor, o_token: tl.tensor,
    T: tl.tensor, S: tl.tensor, A: tl.tensor, window: tl.tensor, ahead: tl.tensor, offset: tl.tensor, factor: tl.tensor,
    BLOCK: tl.constexpr, INSIDE: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
    D: tl.constexpr, D_TILE: tl.constexpr, H: tl.constexpr, H_TILE: tl.constexpr,
    OWN: tl.constexpr, MET: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """The answers of OWN queries of one head, of which R share a key head, and the logs of their sums (base 2)."""
    blocks = tl.cdiv(T, OWN)
    query = tl.program_id(0) % blocks * OWN
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch, head = n // A, n % A
    begin = query.to(tl.int64)
    x = rows(q + batch * q_batch + head * q_head + begin * q_token, 0, q_token, T - query, OWN, D, D_TILE)
    place = offset + query + tl.arange(0, OWN)
    start, _ = _keys_of(offset + query, window, ahead, BLOCK, INSIDE)
    _, stop = _keys_of(offset + tl.minimum(query + OWN, T) - 1, window, ahead, BLOCK, INSIDE)
    start = tl.maximum(start, 0) // MET * MET
    stop = tl.minimum(stop + 1, S)
    # Pointers go to the first key, however far; the loop then counts in small numbers.
    far = start.to(tl.int64)
    k += batch * k_batch + head // R * k_head + far * k_token
    v += batch * v_batch + head // R * v_head + far * v_token
    padding += batch * S + far
    peak = tl.full((OWN,), float("-inf"), tl.float32)
    total = tl.zeros((OWN,), tl.float32)
    o = tl.zeros((OWN, H_TILE), tl.float32)
    for step in range(0, stop - start, MET):
        y = rows(k, step, k_token, S - start, MET, D, D_TILE)
        u = rows(v, step, v_token, S - start, MET, H, H_TILE)
        there = kept(padding, step, S - start, MET, PADDED)
        key = start + step + tl.arange(0, MET)
        s = _logits(x, y, place, key, there, factor, window, ahead, BLOCK, INSIDE, PRECISION)
        # What was summed so far counts from a lower peak.
        higher = tl.maximum(peak, tl.max(s, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(s - level[:, None])
        fade = tl.exp2(peak - level)
        total = total * fade + tl.sum(p, 1)
        o = o * fade[:, None] + product(p.to(u.dtype), u, PRECISION)
        peak = higher
    # A query that attends to no key gives 0, and its weights are 0 on the way back: exp(s - inf).
    alone = total == 0.0
    o = o / tl.where(alone, 1.0, total)[:, None]
    log = tl.where(alone, float("inf"), peak + tl.log2(tl.where(alone, 1.0, total)))
    write_rows(answer + batch * o_batch + head * o_head + begin * o_token, o_token, T - query, o, OWN, H, H_TILE)
    write_numbers(logs + n * T + begin, T - query, log, OWN)


@triton.jit(do_not_specialize=SIZES)
def _reach_queries(
    do: tl.tensor, q: tl.tensor, k: tl.tensor, v: tl.tensor, padding: tl.tensor,
    answer: tl.tensor, logs: tl.tensor, shares: tl.tensor, dq: tl.tensor,
    q_batch: tl.tensor, q_head: tl.tensor, q_token: tl.tensor,
    k_batch: tl.tensor, k_head: tl.tensor, k_token: tl.tensor,
    v_batch: tl.tensor, v_head: tl.tensor, v_token: tl.tensor,
    o_batch: tl.tensor, o_head: tl.tensor, o_token: tl.tensor,
    d_batch: tl.tensor, d_head: tl.tensor, d_token: tl.tensor,
    dq_batch: tl.tensor, dq_head: tl.tensor, dq_token: tl.tensor,
    T: tl.tensor, S: tl.tensor, A: tl.tensor, window: tl.tensor, ahead: tl.tensor, offset: tl.tensor, factor: tl.tensor,
    scale: tl.tensor,
    BLOCK: tl.constexpr, INSIDE: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
    D: tl.constexpr, D_TILE: tl.constexpr, H: tl.constexpr, H_TILE: tl.constexpr,
    OWN: tl.constexpr, MET: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """dq of OWN queries, and do . o of each, which the keys' gradient needs too."""
    blocks = tl.cdiv(T, OWN)
    query = tl.program_id(0) % blocks * OWN
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch, head = n // A, n % A
    begin = query.to(tl.int64)
    x = rows(q + batch * q_batch + head * q_head + begin * q_token, 0, q_token, T - query, OWN, D, D_TILE)
    d = rows(do + batch * d_batch + head * d_head + begin * d_token, 0, d_token, T - query, OWN, H, H_TILE)
    o = rows(answer + batch * o_batch + head * o_head + begin * o_token, 0, o_token, T - query, OWN, H, H_TILE)
    log = numbers(logs + n * T + begin, 0, T - query, OWN)
    share = tl.sum(d.to(tl.float32) * o.to(tl.float32), 1)
    write_numbers(shares + n * T + begin, T - query, share, OWN)
    place = offset + query + tl.arange(0, OWN)
    start, _ = _keys_of(offset + query, window, ahead, BLOCK, INSIDE)
    _, stop = _keys_of(offset + tl.minimum(query + OWN, T) - 1, window, ahead, BLOCK, INSIDE)
    start = tl.maximum(start, 0) // MET * MET
    stop = tl.minimum(stop + 1, S)
    # Pointers go to the first key, however far; the loop then counts in small numbers.
    far = start.to(tl.int64)
    k += batch * k_batch + head // R * k_head + far * k_token
    v += batch * v_batch + head // R * v_head + far * v_token
    padding += batch * S + far
    dx = tl.zeros((OWN, D_TILE), tl.float32)
    for step in range(0, stop - start, MET):
        y = rows(k, step, k_token, S - start, MET, D, D_TILE)
        u = rows(v, step, v_token, S - start, MET, H, H_TILE)
        there = kept(padding, step, S - start, MET, PADDED)
        key = start + step + tl.arange(0, MET)
        s = _logits(x, y, place, key, there, factor, window, ahead, BLOCK, INSIDE, PRECISION)
        p = tl.exp2(s - log[:, None])
        # ds = p (do . v - do . o)
        ds = p * (product(d, tl.trans(u), PRECISION) - share[:, None])
        # dq = scale ds k
        dx += product(ds.to(y.dtype), y, PRECISION)
    dx *= scale
    write_rows(dq + batch * dq_batch + head * dq_head + begin * dq_token, dq_token, T - query, dx, OWN, D, D_TILE)


@triton.jit(do_not_specialize=SIZES)
def _reach_keys(
    do: tl.tensor, q: tl.tensor, k: tl.tensor, v: tl.tensor, padding: tl.tensor,
    logs: tl.tensor, shares: tl.tensor, dk: tl.tensor, dv: tl.tensor,
    q_batch: tl.tensor, q_head: tl.tensor, q_token: tl.tensor,
    k_batch: tl.tensor, k_head: tl.tensor, k_token: tl.tensor,
    v_batch: tl.tensor, v_head: tl.tensor, v_token: tl.tensor,
    d_batch: tl.tensor, d_head: tl.tensor, d_token: tl.tensor,
    dk_batch: tl.tensor, dk_head: tl.tensor, dk_token: tl.tensor,
    dv_batch: tl.tensor, dv_head: tl.tensor, dv_token: tl.tensor,
    T: tl.tensor, S: tl.tensor, G: tl.tensor, window: tl.tensor, ahead: tl.tensor, offset: tl.tensor, factor: tl.tensor,
    scale: tl.tensor,
    BLOCK: tl.constexpr, INSIDE: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
    D: tl.constexpr, D_TILE: tl.constexpr, H: tl.constexpr, H_TILE: tl.constexpr,
    OWN: tl.constexpr, MET: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """dk and dv of OWN keys of one head, from the R query heads that share it, one after the other."""
    blocks = tl.cdiv(S, OWN)
    key = tl.program_id(0) % blocks * OWN
    n = (tl.program_id(0) // blocks).to(tl.int64)
    batch, head = n // G, n % G
    begin = key.to(tl.int64)
    y = rows(k + batch * k_batch + head * k_head + begin * k_token, 0, k_token, S - key, OWN, D, D_TILE)
    u = rows(v + batch * v_batch + head * v_head + begin * v_token, 0, v_token, S - key, OWN, H, H_TILE)
    there = kept(padding + batch * S + begin, 0, S - key, OWN, PADDED)
    keys = key + tl.arange(0, OWN)
    start, _ = _queries_of(key, window, ahead, BLOCK, INSIDE)
    _, stop = _queries_of(tl.minimum(key + OWN, S) - 1, window, ahead, BLOCK, INSIDE)
    start = tl.maximum(start - offset, 0) // MET * MET
    stop = tl.minimum(stop - offset + 1, T)
    dy = tl.zeros((OWN, D_TILE), tl.float32)
    du = tl.zeros((OWN, H_TILE), tl.float32)
    far = start.to(tl.int64)
    for shared in range(R):
        one = head * R + shared
        row = (batch * G * R + one) * T + far
        x_start = q + batch * q_batch + one * q_head + far * q_token
        d_start = do + batch * d_batch + one * d_head + far * d_token
        for step in range(0, stop - start, MET):
            x = rows(x_start, step, q_token, T - start, MET, D, D_TILE)
            d = rows(d_start, step, d_token, T - start, MET, H, H_TILE)
            log = numbers(logs + row, step, T - start, MET)
            share = numbers(shares + row, step, T - start, MET)
            query = start + step + tl.arange(0, MET)
            s = _logits(x, y, offset + query, keys, there, factor, window, ahead, BLOCK, INSIDE, PRECISION)
            # A row beyond the text has no weights.
            s = tl.where((query < T)[:, None], s, float("-inf"))
            p = tl.exp2(s - log[:, None])
            # dv = p^T do
            du += product(tl.trans(p.to(d.dtype)), d, PRECISION)
            ds = p * (product(d, tl.trans(u), PRECISION) - share[:, None])
            # dk = scale ds^T q
            dy += product(tl.trans(ds.to(x.dtype)), x, PRECISION)
    dy *= scale
    write_rows(dk + batch * dk_batch + head * dk_head + begin * dk_token, dk_token, S - key, dy, OWN, D, D_TILE)
    write_rows(dv + batch * dv_batch + head * dv_head + begin * dv_token, dv_token, S - key, du, OWN, H, H_TILE)


def forward(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, scale: float, key_padding: Tensor | None, offset: int
) -> tuple[Tensor, Tensor]:
    """The answer (B, T, A, H) and the logs of the sums of weights, base 2, (B, A, T)."""
    q, k, v = _rows_whole(q), _rows_whole(k), _rows_whole(v)
    (B, A, T, _), (S, H) = q.shape, v.shape[2:]
    answer = q.new_empty(B, T, A, H)
    logs = q.new_empty(B, A, T, dtype=torch.float32)
    own, met, warps, stages = launch(max(q.shape[-1], H), q.dtype)
    _attend[(triton.cdiv(T, own) * B * A,)](
        q, k, v, _padding(key_padding, q), answer, logs,
        *_strides(q, k, v, answer.transpose(1, 2)), T, S, A, *_window(pattern), offset, scale * LOG2_E,
        **_fixed(q, k, v, pattern, key_padding), OWN=own, MET=met, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return answer, logs


def backward(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    answer: Tensor,
    logs: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None,
    offset: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """What reaches q, k and v, from what reaches the answer, (B, T, A, H) both."""
    q, k, v = (_rows_whole(x) for x in (q, k, v))
    do, answer = _rows_whole(do).transpose(1, 2), answer.transpose(1, 2)
    (B, A, T, _), (_, G, S, H) = q.shape, v.shape
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    shares = torch.empty_like(logs)
    padding = _padding(key_padding, q)
    own, met, warps, stages = launch(max(q.shape[-1], H), q.dtype)
    fixed: dict[str, Any] = _fixed(q, k, v, pattern, key_padding)
    fixed |= {"OWN": own, "MET": met, "num_warps": warps, "num_stages": stages}
    numbers_of = (*_window(pattern), offset, scale * LOG2_E, scale)
    _reach_queries[(triton.cdiv(T, own) * B * A,)](
        do,
        q,
        k,
        v,
        padding,
        answer,
        logs,
        shares,
        dq,
        *_strides(q, k, v, answer, do, dq),
        T,
        S,
        A,
        *numbers_of,
        **fixed,
    )
    _reach_keys[(triton.cdiv(S, own) * B * G,)](
        do, q, k, v, padding, logs, shares, dk, dv, *_strides(q, k, v, do, dk, dv), T, S, G, *numbers_of, **fixed
    )
    return dq, dk, dv


def _rows_whole(x: Tensor) -> Tensor:
    """A token's elements side by side, as kernels read them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(stride for x in tensors for stride in x.stride()[:3])


def _window(pattern: Pattern) -> tuple[int, int]:
    assert pattern.window_size is not None
    return pattern.window_size, pattern.lookahead


def _padding(key_padding: Tensor | None, q: Tensor) -> Tensor:
    """One byte a key; without padding any pointer will do, since nobody reads it."""
    return q if key_padding is None else key_padding.contiguous().view(torch.uint8)


def _fixed(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, key_padding: Tensor | None) -> dict[str, Any]:
    """What a kernel is compiled for."""
    D, H = q.shape[-1], v.shape[-1]
    return {
        "BLOCK": pattern.kind == "block",
        "INSIDE": pattern.is_causal,
        "PADDED": key_padding is not None,
        "R": q.shape[1] // k.shape[1],
        "D": D,
        "D_TILE": max(16, triton.next_power_of_2(D)),
        "H": H,
        "H_TILE": max(16, triton.next_power_of_2(H)),
        # TF32, which products of fp32 would take otherwise, has ten bits.
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
    }
