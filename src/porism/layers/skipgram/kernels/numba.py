"""Negative sampling on all cores of a CPU, without the interpreter's lock.

A centre word i with contexts j_1 to j_n draws r times m negatives, which all its contexts share:

    sum over j of (log sigma(u_j . v_i) + sum over m fresh k of log sigma(-u_k . v_i))
        ~ sum over j of log sigma(u_j . v_i) + (n / r) sum over r m shared k of log sigma(-u_k . v_i)

so n + r m rows are read and changed where n (1 + m) were. On average the sums are equal; the README says what sharing
does to the variance. Below, `negatives` are all that a word draws, r m, and `share` is 1 / r.

Rows are known to these kernels by their addresses: row r of a matrix lies `step` bytes times r after its first. All
memory that is reached this way belongs to the caller: numba frees an array of its own after the last use of its name.
Random numbers belong to a place in the text and not to a thread, so that who does the work changes nothing in it.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from porism.layers.skipgram.kernels import constants as splitmix
from porism.layers.skipgram.kernels.constants import MAX_SCORE
from porism.layers.skipgram.kernels.lanes import LINE, STRIDE, ask_for, load, multiply_add, spread, store, total

BINS = 1024
"""Of the tables of sigmoid and softplus up to MAX_SCORE. Between two entries a straight line is off by 3e-6."""

# The last entry is never reached: a score of MAX_SCORE reads the one after its own.
_EDGES = np.arange(BINS + 2) * (2 * MAX_SCORE / BINS) - MAX_SCORE
SIGMOID = (1 / (1 + np.exp(-_EDGES))).astype(np.float32)
SOFTPLUS = np.log1p(np.exp(_EDGES)).astype(np.float32)

SPLITMIX_INCREMENT, _FIRST, _SECOND = (
    np.uint64(constant) for constant in (splitmix.SPLITMIX_INCREMENT, splitmix.SPLITMIX_FIRST, splitmix.SPLITMIX_SECOND)
)
_S30, _S27, _S31, _S32, _S40 = (np.uint64(bits) for bits in (30, 27, 31, 32, 40))
_LOW = np.uint64(0xFFFFFFFF)
_BELOW_ONE = np.float32(2**-24)


@numba.njit(nogil=True, cache=True)
def _mixed(state: Any) -> Any:
    """64 random bits out of a state that only counts."""
    state = (state ^ (state >> _S30)) * _FIRST
    state = (state ^ (state >> _S27)) * _SECOND
    return state ^ (state >> _S31)


@numba.njit(nogil=True, cache=True)
def subsample(tokens: Any, keep: Any, seed: Any, kept: Any) -> Any:
    """Copies the tokens that chance keeps, word w with probability keep[w], and all ends of sentences."""
    size = 0
    for t in range(tokens.shape[0]):
        word = tokens[t]
        kept[size] = word
        chance = np.float32(_mixed(seed + np.uint64(t) * SPLITMIX_INCREMENT) >> _S40) * _BELOW_ONE
        size += word < 0 or chance < keep[max(word, 0)]
    return size


@numba.njit(nogil=True, cache=True)
def _choose(t: Any, kept: Any, window: Any, negatives: Any, thresholds: Any, aliases: Any, seed: Any, rows: Any) -> Any:
    """Writes the contexts of the word at place t and its negatives into rows; answers the number of contexts.

    The window reaches 1 to `window` words to either side, as chance has it, and ends with the sentence.
    """
    state = _mixed(seed + np.uint64(t) * SPLITMIX_INCREMENT) + SPLITMIX_INCREMENT
    reach = 1 + np.int64(((_mixed(state) >> _S32) * np.uint64(window)) >> _S32)
    n = 0
    place = t - 1
    while place >= max(0, t - reach) and kept[place] >= 0:
        rows[n] = kept[place]
        n += 1
        place -= 1
    place = t + 1
    while place < min(kept.shape[0], t + reach + 1) and kept[place] >= 0:
        rows[n] = kept[place]
        n += 1
        place += 1
    if n == 0:
        return 0
    for drawn in range(n, n + negatives):
        state += SPLITMIX_INCREMENT
        bits = _mixed(state)
        column = ((bits >> _S32) * np.uint64(thresholds.shape[0])) >> _S32
        height = np.float32((bits & _LOW) >> np.uint64(8)) * _BELOW_ONE
        alias = np.int64(aliases[column])
        rows[drawn] = np.int64(column) if height < thresholds[column] else alias
    return n


@numba.njit(nogil=True, cache=True)
def _ask_for_negatives(rows: Any, n: Any, size: Any, contexts: Any, step: Any) -> None:
    """Contexts are the negatives' neighbours' own and near; negatives lie anywhere in memory."""
    for r in range(n, size):
        row = contexts + step * rows[r]
        for line in range(0, step, LINE):
            ask_for(row + line)


@numba.njit(nogil=True, cache=True)
def _scores(v: Any, rows: Any, size: Any, contexts: Any, step: Any, scores: Any) -> None:
    """scores[r] = u_r . v, four rows at a time: v is read once for them, and no sum waits for another."""
    zero = spread(np.float32(0))
    r = 0
    while r + 4 <= size:
        a, b = contexts + step * rows[r], contexts + step * rows[r + 1]
        c, d = contexts + step * rows[r + 2], contexts + step * rows[r + 3]
        sum_a, sum_b, sum_c, sum_d = zero, zero, zero, zero
        for at in range(0, step, STRIDE):
            part = load(v + at)
            sum_a = multiply_add(part, load(a + at), sum_a)
            sum_b = multiply_add(part, load(b + at), sum_b)
            sum_c = multiply_add(part, load(c + at), sum_c)
            sum_d = multiply_add(part, load(d + at), sum_d)
        scores[r], scores[r + 1], scores[r + 2], scores[r + 3] = total(sum_a), total(sum_b), total(sum_c), total(sum_d)
        r += 4
    while r < size:
        a = contexts + step * rows[r]
        sum_a = zero
        for at in range(0, step, STRIDE):
            sum_a = multiply_add(load(v + at), load(a + at), sum_a)
        scores[r] = total(sum_a)
        r += 1


@numba.njit(nogil=True, cache=True)
def _coefficients(scores: Any, n: Any, size: Any, share: Any, rate: Any) -> Any:
    """Makes scores rate times c: 1 - sigma(s) for n contexts, -n share sigma(s) for negatives; answers the loss."""
    loss, weight = np.float32(0), np.float32(n) * share
    for r in range(size):
        place = scores[r] * np.float32(BINS / (2 * MAX_SCORE)) + np.float32(BINS / 2)
        # Written so that a NaN falls into the first bin, and not outside the table.
        place = place if place > 0 else np.float32(0)
        place = place if place < BINS else np.float32(BINS)
        at = np.int64(place)
        part = place - np.float32(at)
        sigma = SIGMOID[at] + part * (SIGMOID[at + 1] - SIGMOID[at])
        minus_log = SOFTPLUS[at] + part * (SOFTPLUS[at + 1] - SOFTPLUS[at])  # -log sigma(-s)
        if r < n:
            scores[r], loss = rate * (np.float32(1) - sigma), loss + minus_log - scores[r]
        else:
            scores[r], loss = -rate * weight * sigma, loss + weight * minus_log
    return loss


@numba.njit(nogil=True, cache=True)
def _clear(target: Any, step: Any) -> None:
    zero = spread(np.float32(0))
    for at in range(0, step, STRIDE):
        store(target + at, zero)


@numba.njit(nogil=True, cache=True)
def _add(factor: Any, source: Any, target: Any, step: Any) -> None:
    """target += factor source."""
    factors = spread(factor)
    for at in range(0, step, STRIDE):
        store(target + at, multiply_add(factors, load(source + at), load(target + at)))


@numba.njit(nogil=True, cache=True)
def _change(dv: Any, rows: Any, size: Any, contexts: Any, step: Any, c: Any) -> None:
    """dv += sum of c_r u_r."""
    r = 0
    while r + 4 <= size:
        u0, u1 = contexts + step * rows[r], contexts + step * rows[r + 1]
        u2, u3 = contexts + step * rows[r + 2], contexts + step * rows[r + 3]
        c0, c1, c2, c3 = spread(c[r]), spread(c[r + 1]), spread(c[r + 2]), spread(c[r + 3])
        for at in range(0, step, STRIDE):
            part = multiply_add(c0, load(u0 + at), load(dv + at))
            part = multiply_add(c1, load(u1 + at), part)
            part = multiply_add(c2, load(u2 + at), part)
            store(dv + at, multiply_add(c3, load(u3 + at), part))
        r += 4
    while r < size:
        _add(c[r], contexts + step * rows[r], dv, step)
        r += 1


@numba.njit(nogil=True, cache=True)
def _change_both(v: Any, dv: Any, rows: Any, size: Any, contexts: Any, step: Any, c: Any) -> None:
    """dv += sum of c_r u_r, and u_r += c_r v. A row that comes twice is changed twice: each is read after the last."""
    r = 0
    while r + 4 <= size:
        u0, u1 = contexts + step * rows[r], contexts + step * rows[r + 1]
        u2, u3 = contexts + step * rows[r + 2], contexts + step * rows[r + 3]
        c0, c1, c2, c3 = spread(c[r]), spread(c[r + 1]), spread(c[r + 2]), spread(c[r + 3])
        for at in range(0, step, STRIDE):
            x, part = load(v + at), load(dv + at)
            u = load(u0 + at)
            part = multiply_add(c0, u, part)
            store(u0 + at, multiply_add(c0, x, u))
            u = load(u1 + at)
            part = multiply_add(c1, u, part)
            store(u1 + at, multiply_add(c1, x, u))
            u = load(u2 + at)
            part = multiply_add(c2, u, part)
            store(u2 + at, multiply_add(c2, x, u))
            u = load(u3 + at)
            part = multiply_add(c3, u, part)
            store(u3 + at, multiply_add(c3, x, u))
            store(dv + at, part)
        r += 4
    while r < size:
        u0 = contexts + step * rows[r]
        _add(c[r], u0, dv, step)
        _add(c[r], v, u0, step)
        r += 1


def shared_memory(
    kept: Any,
    words: Any,
    contexts: Any,
    step: Any,
    thresholds: Any,
    aliases: Any,
    window: Any,
    negatives: Any,
    share: Any,
    first_rate: Any,
    last_rate: Any,
    seed: Any,
    parts: int,
    changes: Any,
) -> tuple[int, float]:
    """Each part walks through its own stretch of text and changes rows where they lie; answers pairs and loss.

    `changes` is the address of a row for each part.

    Two parts that change a row at once may lose one of the changes, which is rare and harmless, and differs from run to
    run. With one part nothing is lost.
    """

    def stretch(part: int) -> tuple[int, float]:
        start, end = len(kept) * part // parts, len(kept) * (part + 1) // parts
        rates = first_rate, (last_rate - first_rate) / np.float32(max(1, end - start))
        draws = thresholds, aliases, window, negatives, share
        return _walk(kept, words, contexts, step, *draws, *rates, seed, start, end, changes + step * part)  # type: ignore[no-any-return]

    if parts == 1:
        return stretch(0)
    # Threads of Python, which the kernels leave to themselves: numba's own take it twice as long to compile.
    with ThreadPoolExecutor(numba.get_num_threads()) as threads:
        pairs, losses = zip(*threads.map(stretch, range(parts)), strict=True)
    return sum(pairs), sum(losses)


@numba.njit(nogil=True, cache=True)
def _walk(
    kept: Any,
    words: Any,
    contexts: Any,
    step: Any,
    thresholds: Any,
    aliases: Any,
    window: Any,
    negatives: Any,
    share: Any,
    rate: Any,
    slope: Any,
    seed: Any,
    start: Any,
    end: Any,
    dv: Any,
) -> Any:
    """The text from `start` to `end`; `dv` is the address of a row to work in. Answers pairs and loss."""
    pairs, loss = 0, 0.0
    # The next word's rows are chosen, and prefetched, while this one's are at work.
    rows, sizes = np.empty((2, 2 * window + negatives), np.int64), np.zeros(2, np.int64)
    c = np.empty(2 * window + negatives, np.float32)
    for ahead in range(start, end + 1):
        if ahead < end:
            new = rows[ahead & 1]
            n = _choose(ahead, kept, window, negatives, thresholds, aliases, seed, new) if kept[ahead] >= 0 else 0
            sizes[ahead & 1] = n
            if n:
                _ask_for_negatives(new, n, n + negatives, contexts, step)
        t = ahead - 1
        n = sizes[t & 1]
        if t >= start and n:
            chosen, v = rows[t & 1], words + step * np.int64(kept[t])
            _scores(v, chosen, n + negatives, contexts, step, c)
            loss += _coefficients(c, n, n + negatives, share, rate + slope * np.float32(t - start))
            _clear(dv, step)
            _change_both(v, dv, chosen, n + negatives, contexts, step, c)
            _add(np.float32(1), dv, v, step)
            pairs += n
    return pairs, loss


@numba.njit(nogil=True, parallel=True, cache=True)
def in_blocks(
    kept: Any,
    words: Any,
    contexts: Any,
    step: Any,
    thresholds: Any,
    aliases: Any,
    window: Any,
    negatives: Any,
    share: Any,
    first_rate: Any,
    last_rate: Any,
    seed: Any,
    parts: Any,
    block: Any,
    before: Any,
    changes: Any,
) -> Any:
    """The same bits for any number of parts: a block of words is worked out against rows that nobody changes meanwhile.

    Then each part changes the rows that are its own, those whose number leaves its own number as the remainder, in the
    order of the text. Answers pairs and loss. `before` and `changes` are the addresses of a row for each word of a
    block: its vector, and what it changes by.
    """
    most = 2 * window + negatives
    rows, sizes = np.empty((block, most), np.int64), np.zeros(block, np.int64)
    c, losses = np.empty((block, most), np.float32), np.zeros(block, np.float64)
    length, pairs, loss = kept.shape[0], 0, 0.0
    slope = (last_rate - first_rate) / np.float32(max(1, length))
    for first in range(0, length, block):
        size = min(block, length - first)
        for part in numba.prange(parts):
            start, end = size * part // parts, size * (part + 1) // parts
            for i in range(start, end):
                t = first + i
                n = _choose(t, kept, window, negatives, thresholds, aliases, seed, rows[i]) if kept[t] >= 0 else 0
                sizes[i] = n
                if n:
                    _ask_for_negatives(rows[i], n, n + negatives, contexts, step)
            for i in range(start, end):
                n, t = sizes[i], first + i
                if n:
                    v, dv = before + step * i, changes + step * i
                    _clear(v, step)
                    _add(np.float32(1), words + step * np.int64(kept[t]), v, step)
                    _scores(v, rows[i], n + negatives, contexts, step, c[i])
                    losses[i] = _coefficients(c[i], n, n + negatives, share, first_rate + slope * np.float32(t))
                    _clear(dv, step)
                    _change(dv, rows[i], n + negatives, contexts, step, c[i])
        for part in numba.prange(parts):
            for i in range(size):
                if sizes[i]:
                    word = np.int64(kept[first + i])
                    if word % parts == part:
                        _add(np.float32(1), changes + step * i, words + step * word, step)
                    for r in range(sizes[i] + negatives):
                        if rows[i, r] % parts == part:
                            _add(c[i, r], before + step * i, contexts + step * rows[i, r], step)
        for i in range(size):
            if sizes[i]:
                pairs += sizes[i]
                loss += losses[i]
    return pairs, loss
