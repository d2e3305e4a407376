"""Training on a text that comes in chunks of any size, larger in all than memory, by the kernels of numba.py."""

import math
import os
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import MissingExtra, RecipeError, ShapeError, TrainingError
from porism.layers.skipgram.noise import POWER, Noise

Vectors = NDArray[np.float32]

END = -1
"""Between sentences: no window reaches over it."""

ALIGNED = 8
"""Rows are as wide as a multiple of this, filled up with zeros, so that kernels meet no remainders."""

LARGEST_BLOCK = 512
MOST_WEIGHT = 1.5
"""Rate times expected gradients that a row may get within a block. Each is worked out as if the others were not there,
so that too many together overshoot: at a rate of 0.1 three of them are too many, at 0.025 twelve."""

MOST_LOSS = 10
"""Times the loss of vectors of zeros: beyond, training is lost."""

# Where numba finds no OpenMP its own threads serve one caller at a time.
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True)
class Progress:
    """What a chunk came to."""

    tokens: int
    """Words in the chunk, ends of sentences left out."""
    kept: int
    """Of them, those that chance kept."""
    pairs: int
    """Of a word and a context."""
    loss: float
    """Mean over pairs of -log sigma(u_j . v) - sum log sigma(-u_k . v); NaN without pairs."""
    rate: float
    """The learning rate after it."""


@dataclass
class Trainer:
    """Changes `words` and `contexts` in place, chunk by chunk.

    >>> trainer = Trainer.fresh(np.array([500, 300, 200]), width=50, total=1000)
    >>> progress = trainer.train(np.array([0, 1, 0, 2, -1, 1, 0], dtype=np.int32))
    >>> progress.tokens, trainer.vectors.shape
    (6, (3, 50))

    words, contexts: (V, P) float32, P the width rounded up (see `padded`). frequencies: (V,).
    total: tokens in all chunks of all epochs, over which the rate falls from `rate` to `last_rate`.
    sample: words that make up more than this share of the text are dropped at random; 0 keeps all.
    deterministic: the same bits on every run and with any number of threads, if the chunks are the same.
    done: tokens that were trained on before.
    """

    words: Vectors
    contexts: Vectors
    width: int
    frequencies: NDArray[np.int64]
    total: int
    window: int = 5
    negatives: int = 5
    sample: float = 1e-3
    power: float = POWER
    rate: float = 0.025
    last_rate: float = 1e-4
    seed: int = 0
    threads: int | None = None
    deterministic: bool = False
    done: int = 0

    def __post_init__(self) -> None:
        _check(self)
        noise = Noise.of_frequencies(torch.from_numpy(np.asarray(self.frequencies, dtype=np.float64)), self.power)
        self._thresholds = noise.thresholds.numpy().astype(np.float32)
        self._aliases = noise.aliases.numpy().astype(np.int32)
        shares = self.frequencies / self.frequencies.sum()
        self._keep = kept_share(shares, self.sample).astype(np.float32)
        self._block = _block(shares * self._keep, noise.probabilities.numpy(), self)

    @classmethod
    def fresh(cls, frequencies: NDArray[np.int64], width: int, total: int, seed: int = 0, **options: Any) -> Self:
        """With vectors as in word2vec: small random words, contexts of zeros."""
        draw = np.random.default_rng(seed)
        words = padded((draw.random((len(frequencies), width), dtype=np.float32) - np.float32(0.5)) / np.float32(width))
        return cls(words, np.zeros_like(words), width, frequencies, total, seed=seed, **options)

    @property
    def vectors(self) -> Vectors:
        """The words' vectors without their filling, (V, D)."""
        return self.words[:, : self.width]

    def rate_after(self, tokens: int) -> float:
        """The learning rate when so many tokens are done."""
        return max(self.last_rate, self.rate + (self.last_rate - self.rate) * tokens / self.total)

    def train(self, tokens: NDArray[np.int32]) -> Progress:
        """Once through a chunk: (T,) int32 numbers of words, END between sentences."""
        _check_tokens(tokens, len(self.words))
        kernels = _kernels()
        import numba

        parts = self.threads or os.cpu_count() or 1
        # Two random streams for a chunk, one to drop words and one to draw them, that no other chunk shares.
        streams = np.random.SeedSequence([self.seed, self.done]).generate_state(2, np.uint64)
        kept = np.empty_like(tokens)
        real = int(np.count_nonzero(tokens >= 0))
        first, last = self.rate_after(self.done), self.rate_after(self.done + real)
        with _ONE_AT_A_TIME:
            numba.set_num_threads(min(parts, numba.config.NUMBA_NUM_THREADS))
            kept = kept[: kernels.subsample(tokens, self._keep, streams[0], kept)]
            places = (kept, self.words.ctypes.data, self.contexts.ctypes.data, self.words.strides[0])
            chances = (self._thresholds, self._aliases, self.window, self.negatives)
            rates = (np.float32(first), np.float32(last), streams[1], parts)
            if self.deterministic:
                before, changes = (np.empty((self._block, self.words.shape[1]), np.float32) for _ in range(2))
                room = (self._block, before.ctypes.data, changes.ctypes.data)
                pairs, loss = kernels.in_blocks(*places, *chances, *rates, *room)
            else:
                changes = np.empty((parts, self.words.shape[1]), np.float32)
                pairs, loss = kernels.shared_memory(*places, *chances, *rates, changes.ctypes.data)
        self.done += real
        self._check_health(loss / max(1, pairs))
        return Progress(real, int(np.count_nonzero(kept >= 0)), int(pairs), loss / pairs if pairs else math.nan, last)

    def _check_health(self, loss: float) -> None:
        """Raises where training has diverged."""
        with np.errstate(over="ignore", invalid="ignore"):
            # A row that is no number makes the sum none; looking at each one would take longer.
            finite = math.isfinite(float(self.words.sum()) + float(self.contexts.sum()))
        # Vectors of zeros know nothing, and have this loss.
        ignorant = (1 + self.negatives) * math.log(2)
        if not finite or loss > MOST_LOSS * ignorant:
            raise TrainingError(
                f"skipgram: training diverged within {self.done} tokens: the loss is {loss:.3g}, that of zeros "
                f"{ignorant:.3g}. Start again with a rate below {self.rate:g}."
            )


def padded(vectors: Vectors) -> Vectors:
    """(V, D) -> (V, P): float32 with zeros up to a multiple of ALIGNED. They stay zeros in training."""
    V, D = vectors.shape
    wide = np.zeros((V, -(-D // ALIGNED) * ALIGNED), dtype=np.float32)
    wide[:, :D] = vectors
    return wide


def kept_share(shares: NDArray[np.float64], sample: float) -> NDArray[np.float64]:
    """The probability to keep a word that makes up a share of the text: sqrt(sample / share) + sample / share, or 1.

    >>> kept_share(np.array([0.06, 0.0001]), 1e-3).round(3)
    array([0.146, 1.   ])
    """
    if sample == 0:
        return np.ones_like(shares)
    return np.minimum(1, np.sqrt(sample / shares) + sample / shares)


def _block(weights: NDArray[np.float64], noise: NDArray[np.float64], trainer: Trainer) -> int:
    """Words whose changes can be worked out side by side: the fewer, the more often a word or negative comes."""
    # A word has window + 1 contexts on average: as many gradients for it, and m times as many for negatives.
    often = (trainer.window + 1) * (weights / weights.sum() + trainer.negatives * noise).max()
    return max(1, min(LARGEST_BLOCK, int(MOST_WEIGHT / (trainer.rate * often))))


def _kernels() -> ModuleType:
    try:
        from porism.layers.skipgram import numba as kernels
    except ImportError:
        raise MissingExtra('training words needs numba, which is not installed: pip install "porism[words]"') from None
    return kernels


def _check(trainer: Trainer) -> None:
    V, D = len(trainer.frequencies), trainer.width
    wanted = (V, -(-D // ALIGNED) * ALIGNED)
    for name, vectors in (("words", trainer.words), ("contexts", trainer.contexts)):
        if vectors.shape != wanted or vectors.dtype != np.float32 or not vectors.flags.c_contiguous:
            raise ShapeError(
                f"skipgram: {name} are {vectors.shape} of {vectors.dtype}, wanted {wanted} of float32 without gaps, "
                f"for {V} words of width {D}. Make them with padded."
            )
    for name in ("window", "negatives", "total"):
        if getattr(trainer, name) < 1:
            raise RecipeError(f"skipgram: {name} is {getattr(trainer, name)}. Give a whole number from 1 on.")
    if trainer.threads is not None and trainer.threads < 1:
        raise RecipeError(f"skipgram: threads is {trainer.threads}. Give a number from 1 on, or None for all cores.")
    if not 0 < trainer.last_rate <= trainer.rate:
        raise RecipeError(
            f"skipgram: the rate falls from {trainer.rate} to {trainer.last_rate}. "
            "Give numbers above 0, the larger first."
        )
    if trainer.sample < 0:
        raise RecipeError(f"skipgram: sample is {trainer.sample}. Give a share such as 0.001, or 0 to keep all words.")


def _check_tokens(tokens: NDArray[np.int32], vocabulary: int) -> None:
    if tokens.ndim != 1 or tokens.dtype != np.int32:
        raise ShapeError(
            f"skipgram: tokens are {tokens.shape} of {tokens.dtype}, wanted (T,) of int32. "
            "Convert with astype(np.int32)."
        )
    if len(tokens) and not END <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise ShapeError(
            f"skipgram: tokens run from {tokens.min()} to {tokens.max()}, wanted 0 to {vocabulary - 1}, "
            f"and {END} between sentences. Leave out words that are not in the vocabulary."
        )
