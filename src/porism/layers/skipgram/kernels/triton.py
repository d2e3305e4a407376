"""Negative sampling on a GPU: as many walks through the text as there is room for, all on the same rows.

The same sums, and the same random numbers for a place in the text, as in numba.py. A walk goes word by word: it reads
the rows of contexts and negatives together, and adds what they change by in single operations of the memory, so that
no change is lost. Walks do not wait for one another, and a row may be a few words old when it is read.

How many words are kept stays on the GPU, so that nothing waits for it between the kernels.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.skipgram.kernels.constants import (
    ALIGNED,
    MAX_SCORE,
    SPLITMIX_FIRST,
    SPLITMIX_INCREMENT,
    SPLITMIX_SECOND,
)

_INCREMENT, _FIRST, _SECOND, _MAX_SCORE, _ALIGNED = (
    tl.constexpr(number) for number in (SPLITMIX_INCREMENT, SPLITMIX_FIRST, SPLITMIX_SECOND, MAX_SCORE, ALIGNED)
)

_BLOCK = 1024


def subsample(tokens: Tensor, keep: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The tokens that chance keeps, word w with probability keep[w], and all ends of sentences; how many they are.

    Shapes: tokens (T,), keep (V,) -> (T,) with ends of sentences after what is kept, (1,).
    """
    kept, taken = torch.full_like(tokens, -1), torch.empty_like(tokens, dtype=torch.bool)
    if len(tokens) == 0:
        return kept, torch.zeros(1, dtype=torch.int64, device=tokens.device)
    grid, block = (triton.cdiv(len(tokens), _BLOCK),), _BLOCK
    _keep[grid](tokens, keep, _number(seed, tokens), taken, len(tokens), BLOCK=block)
    places = taken.cumsum(0)
    _gather[grid](tokens, taken, places, kept, len(tokens), BLOCK=block)
    return kept, places[-1:]


def walk(
    kept: Tensor, length: Tensor, words: Tensor, contexts: Tensor, thresholds: Tensor, aliases: Tensor,
    window: int, negatives: int, share: float, first_rate: float, last_rate: float, seed: int, walks: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Changes words and contexts (V, P), each walk on its own stretch of the first `length` tokens.

    Returns: pairs and loss, (walks,).
    """
    # On average a walk has a word at least.
    walks = max(1, min(walks, len(kept)))
    pairs = torch.zeros(walks, dtype=torch.int64, device=kept.device)
    losses = torch.zeros(walks, dtype=torch.float64, device=kept.device)
    if len(kept) == 0:
        return pairs, losses
    sentences = (kept < 0).cumsum(0, dtype=torch.int32)
    met = 2 * window + negatives
    table = torch.empty(len(kept), met, dtype=torch.int32, device=kept.device)
    rows, block = triton.next_power_of_2(met), 64
    _look_up[(triton.cdiv(len(kept), block),)](
        kept, length, sentences, thresholds, aliases, _number(seed, kept), table, len(words),
        WINDOW=window, NEGATIVES=negatives, ROWS=rows, BLOCK=block,
    )  # fmt: skip
    width = triton.next_power_of_2(words.shape[1])
    _walk[(walks,)](
        kept, length, table, words, contexts, pairs, losses,
        words.shape[1] // ALIGNED, share, first_rate, last_rate,
        CONTEXTS=2 * window, MET=met, ROWS=rows, WIDTH=width, num_warps=_warps(rows * width),
    )  # fmt: skip
    return pairs, losses


def _warps(numbers: int) -> int:
    """So that a thread holds some 32 numbers."""
    return max(1, min(8, numbers // 1024))


def _number(seed: int, near: Tensor) -> Tensor:
    """64 bits where kernels can read them: as an argument large and small ones would be two kernels."""
    return torch.tensor([seed - 2**64 if seed >= 2**63 else seed], dtype=torch.int64).to(near.device)


@triton.jit
def _mixed(state: tl.tensor) -> tl.tensor:
    """64 random bits out of a state that only counts."""
    state = (state ^ (state >> 30)) * _FIRST
    state = (state ^ (state >> 27)) * _SECOND
    return state ^ (state >> 31)


@triton.jit(do_not_specialize=["length"])
def _keep(
    tokens: tl.tensor, keep: tl.tensor, seed: tl.tensor, kept: tl.tensor, length: tl.tensor, BLOCK: tl.constexpr
) -> None:
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = t < length
    word = tl.load(tokens + t, mask=inside, other=-1)
    bits = _mixed(tl.load(seed).to(tl.uint64) + t.to(tl.uint64) * _INCREMENT)
    chance = (bits >> 40).to(tl.float32) * (2.0**-24)
    tl.store(kept + t, (word < 0) | (chance < tl.load(keep + word, mask=word >= 0, other=1.0)), mask=inside)


@triton.jit(do_not_specialize=["length"])
def _gather(
    tokens: tl.tensor, taken: tl.tensor, places: tl.tensor, kept: tl.tensor, length: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """Moves what is taken to its place, counted from 1."""
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.load(taken + t, mask=t < length, other=0) != 0
    place = tl.load(places + t, mask=mask, other=1)
    tl.store(kept + place - 1, tl.load(tokens + t, mask=mask, other=-1), mask=mask)


@triton.jit
def _look_up(
    kept: tl.tensor, kept_length: tl.tensor, sentences: tl.tensor, thresholds: tl.tensor, aliases: tl.tensor,
    seed: tl.tensor, table: tl.tensor, vocabulary: tl.tensor,
    WINDOW: tl.constexpr, NEGATIVES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """The rows that each word of the text meets, (T, 2 WINDOW + NEGATIVES): contexts before it and after it, negatives.

    -1 for a context that is not there, and for all where a word has none.
    """
    length = tl.load(kept_length)
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    r = tl.arange(0, ROWS)[None, :]
    is_context, is_negative = r < 2 * WINDOW, (r >= 2 * WINDOW) & (r < 2 * WINDOW + NEGATIVES)
    inside = t < length
    word = tl.load(kept + t, mask=inside, other=-1)
    state = _mixed(tl.load(seed).to(tl.uint64) + t.to(tl.uint64) * _INCREMENT) + _INCREMENT
    # None around the end of a sentence.
    reach = tl.where(word < 0, 0, 1 + (((_mixed(state) >> 32) * WINDOW) >> 32).to(tl.int32))
    distance = r % WINDOW + 1
    place = t[:, None] + tl.where(r < WINDOW, -distance, distance)
    near = is_context & (distance <= reach[:, None]) & (place >= 0) & (place < length)
    sentence = tl.load(sentences + t, mask=inside, other=-1)
    near = near & (tl.load(sentences + place, mask=near, other=-1) == sentence[:, None])
    context = tl.load(kept + place, mask=near, other=-1)
    has_any = tl.max(context, 1) >= 0
    drawn = is_negative & has_any[:, None]
    bits = _mixed(state[:, None] + tl.where(is_negative, r - 2 * WINDOW + 1, 0).to(tl.uint64) * _INCREMENT)
    column = ((bits >> 32) * vocabulary.to(tl.uint64)) >> 32
    height = ((bits & 0xFFFFFFFF) >> 8).to(tl.float32) * (2.0**-24)
    own = height < tl.load(thresholds + column, mask=drawn, other=0.0)
    negative = tl.where(own, column.to(tl.int32), tl.load(aliases + column, mask=drawn, other=0))
    row = tl.where(drawn, negative, context)
    at = table + t[:, None] * (2 * WINDOW + NEGATIVES) + r
    tl.store(at, row, mask=inside[:, None] & (is_context | is_negative))


@triton.jit
def _walk(
    kept: tl.tensor, kept_length: tl.tensor, table: tl.tensor, words: tl.tensor, contexts: tl.tensor,
    pairs: tl.tensor, losses: tl.tensor,
    steps: tl.tensor, share: tl.tensor, first_rate: tl.tensor, last_rate: tl.tensor,
    CONTEXTS: tl.constexpr, MET: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
) -> None:  # fmt: skip
    length = tl.load(kept_length)
    part, parts = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    start, end = length * part // parts, length * (part + 1) // parts
    slope = (last_rate - first_rate) / tl.maximum(1, end - start).to(tl.float32)
    r = tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    # Written as a multiple, so that the compiler reads and adds four numbers at a time.
    step = steps * _ALIGNED
    wide = d < step
    count = tl.zeros([], dtype=tl.int64)
    loss = tl.zeros([ROWS], dtype=tl.float64)
    # A walk waits for memory at every word. What the next one meets is known ahead, and read while this one is changed.
    word = tl.load(kept + start)
    row = tl.load(table + start * MET + r, mask=r < MET, other=-1)
    for t in range(start, end):
        following = tl.minimum(t + 1, end - 1)
        next_word = tl.load(kept + following)
        next_row = tl.load(table + following * MET + r, mask=r < MET, other=-1)
        here = row >= 0
        near = here & (r < CONTEXTS)
        n = tl.sum(near.to(tl.int32))
        changed = tl.where(wide, n, 0) > 0
        v_at = words + word.to(tl.int64) * step + d
        u_at = contexts + row.to(tl.int64)[:, None] * step + d[None, :]
        whole = here[:, None] & wide[None, :]
        # From the cache that all walks share: nearer ones would go on showing what was.
        v = tl.load(v_at, mask=changed, other=0.0, cache_modifier=".cg")
        u = tl.load(u_at, mask=whole, other=0.0, cache_modifier=".cg")
        score = tl.sum(u * v[None, :], axis=1)
        bounded = tl.minimum(tl.maximum(score, -_MAX_SCORE), _MAX_SCORE)
        weight = n.to(tl.float32) * share
        minus_log = tl.log(1 + tl.exp(bounded))  # -log sigma(-s)
        sigma = 1 / (1 + tl.exp(-bounded))
        rate = first_rate + slope * (t - start).to(tl.float32)
        c = tl.where(near, rate * (1 - sigma), tl.where(here, -rate * weight * sigma, 0.0))
        tl.atomic_add(v_at, tl.sum(c[:, None] * u, axis=0), mask=changed, sem="relaxed")
        tl.atomic_add(u_at, c[:, None] * v[None, :], mask=whole, sem="relaxed")
        loss += tl.where(near, minus_log - score, tl.where(here, weight * minus_log, 0.0)).to(tl.float64)
        count += n
        word, row = next_word, next_row
    tl.store(pairs + part, count)
    tl.store(losses + part, tl.sum(loss))
