"""What the kernels do, in plain Python: the same random numbers, one word after the other, sums in double precision."""

import numpy as np
from numpy.typing import NDArray

from porism.tasks.words.model.trainer import Trainer

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(state: int) -> int:
    """splitmix64."""
    state &= MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def subsampled(tokens: list[int], keep: NDArray[np.float32], seed: int) -> list[int]:
    uniform = [(mixed(seed + t * GOLDEN) >> 40) * 2.0**-24 for t in range(len(tokens))]
    return [word for word, number in zip(tokens, uniform, strict=True) if word < 0 or number < keep[word]]


def chosen(t: int, kept: list[int], trainer: Trainer, seed: int) -> tuple[list[int], list[int]]:
    """The contexts of a position in the text, nearest first and those before it first, and the negatives."""
    state = mixed(seed + t * GOLDEN) + GOLDEN
    reach = 1 + ((mixed(state) >> 32) * trainer.window >> 32)
    contexts = []
    for direction in (-1, 1):
        for distance in range(1, reach + 1):
            index = t + direction * distance
            if not 0 <= index < len(kept) or kept[index] < 0:
                break
            contexts.append(kept[index])
    negatives = []
    for _ in range(trainer.negatives * trainer.draws):
        state += GOLDEN
        bits = mixed(state)
        column = (bits >> 32) * len(trainer.words) >> 32
        height = ((bits & 0xFFFFFFFF) >> 8) * 2.0**-24
        negatives.append(column if height < float(trainer._thresholds[column]) else int(trainer._aliases[column]))
    return contexts, negatives


def sigmoid(score: float) -> float:
    """Scores beyond 8 count as 8."""
    return float(1 / (1 + np.exp(-min(max(score, -8.0), 8.0))))


def trained(trainer: Trainer, tokens: list[int], block: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Words and contexts after one chunk, each block of words worked out against the vectors before it.

    Without blocks a row that a word reaches twice is read the second time as the first has left it.
    """
    drop, draw = (int(s) for s in np.random.SeedSequence([trainer.seed, trainer.done]).generate_state(2, np.uint64))
    kept = subsampled(tokens, trainer._keep.numpy(), drop)
    words, contexts = (x.cpu().double().numpy() for x in (trainer.words, trainer.contexts))
    first, last = (trainer.rate_after(trainer.done + n) for n in (0, sum(word >= 0 for word in tokens)))
    size = block or 1
    for start in range(0, len(kept), size):
        words_before, contexts_before = words.copy(), contexts.copy()
        for t in range(start, min(start + size, len(kept))):
            if kept[t] < 0:
                continue
            rate = first + (last - first) * t / len(kept)
            v = words_before[kept[t]]
            positives, negatives = chosen(t, kept, trainer, draw)
            sigma = {row: sigmoid(float(contexts_before[row] @ v)) for row in positives + negatives}
            changes = [(row, rate * (1 - sigma[row])) for row in positives]
            # Every context has the same negatives.
            weight = len(positives) / trainer.draws
            changes += [(row, -rate * weight * sigma[row]) for row in negatives]
            for row, c in changes:
                words[kept[t]] += c * (contexts_before if block else contexts)[row]
                contexts[row] += c * v
    return words, contexts
