"""Negative sampling by the kernels: a chunk of text at a time, the model updated in place."""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from threading import Lock
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.graph import increment_version

from porism.errors import DivergedError, MissingExtra, RecipeError, ShapeError
from porism.layers.operands import MOST, check_operands
from porism.layers.skipgram import SkipGram
from porism.layers.skipgram.kernels.constants import ALIGNED
from porism.layers.skipgram.noise import POWER, Noise
from porism.tasks.words.model.merging import merge_scales
from porism.tasks.words.recipes import WordsRecipe
from porism.training.task import Batch, Carry

LAST_RATE = 1 / 250
"""Of the first rate, where it falls linearly; word2vec goes from 0.025 to 0.0001."""


class KernelStep:
    """Trains on a batch of `CorpusPass`, or on a part of one. From here on the model's vectors are the trainer's.

    words: of a pass.
    """

    def __init__(self, model: SkipGram, recipe: WordsRecipe, frequencies: NDArray[np.int64], words: int) -> None:
        self.trainer = Trainer(
            words=padded(model.weight.detach()),
            contexts=padded(model.context_weight.detach()),
            width=model.embedding_dim,
            frequencies=frequencies,
            total=recipe.epochs * words,
            window=recipe.window,
            negatives=recipe.negative,
            sample=recipe.sample,
            rate=recipe.learning_rate,
            last_rate=recipe.learning_rate * (LAST_RATE if recipe.lr_scheduler == "linear" else 1),
            seed=torch.initial_seed(),
            threads=torch.get_num_threads(),
            deterministic=recipe.deterministic,
        )
        # Views: evaluation and checkpoints read what the kernels update.
        model.weight.data = self.trainer.words[:, : model.embedding_dim]
        model.context_weight.data = self.trainer.contexts[:, : model.embedding_dim]
        # Kernels are compiled at their first call, before the clock starts: ends of sentences alone change nothing.
        self.trainer.train(torch.full((2,), END, dtype=torch.int32, device=self.trainer.words.device))

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        tokens, position = batch
        self.trainer.done = int(position[0])
        progress = self.trainer.train(tokens)
        return torch.tensor(progress.loss if progress.pairs else 0.0, dtype=torch.float64), carry

    def scales(self, batch: Batch, size: int) -> list[Tensor]:
        """Of words' vectors and of contexts', what multiplies the mean of their changes after a chunk."""
        tokens, position = batch
        trainer, (kept, noise) = self.trainer, self._probabilities
        occurrences, rate = kept * (int((tokens >= 0).sum()) / size), trainer.rate_after(int(position[0]))
        scales = merge_scales(occurrences, noise, trainer.window, trainer.negatives, rate, size)
        return [scale.to(trainer.words.device) for scale in scales]

    @cached_property
    def _probabilities(self) -> tuple[Tensor, Tensor]:
        """That a word of the text is this one and is kept, and that a negative is this one, (V,) each."""
        trainer = self.trainer
        frequencies = trainer.frequencies.astype(np.float64)
        shares = frequencies / frequencies.sum()
        noise = Noise.of_frequencies(torch.from_numpy(frequencies), trainer.power)
        return torch.from_numpy(shares * kept_share(shares, trainer.sample)), noise.probabilities


END = -1
"""Between sentences: no window reaches over it."""

LARGEST_BLOCK = 512
MOST_WEIGHT = 1.5
"""Rate times expected gradients that a row may get within a block. Each is computed without the others,
so that too many together overshoot: at a rate of 0.1 three of them are too many, at 0.025 twelve."""

MOST_LOSS = 10
"""Times the loss of vectors of zeros: beyond, training has diverged."""

MOST_ROWS = 2**16
"""That a word may reach: its contexts and its negatives. Kernels keep their numbers."""

MOST_THREADS = 2**14

STREAMS = 2
"""On a GPU, for each of its multiprocessors: enough to hide the latency of memory, few enough that rows are current."""

# Where numba finds no OpenMP its own threads serve one caller at a time.
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True)
class ChunkResult:
    """The result of a chunk."""

    tokens: int
    """Words in the chunk, ends of sentences left out."""
    kept: int
    """Of them, those that subsampling kept."""
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
    >>> result = trainer.train(torch.tensor([0, 1, 0, 2, -1, 1, 0], dtype=torch.int32))
    >>> result.tokens, trainer.vectors.shape
    (6, torch.Size([3, 50]))

    words, contexts: (V, P) float32, P the width rounded up (see `padded`), on the device that is to train them.
    frequencies: (V,).
    total: tokens in all chunks of all epochs, over which the rate falls from `rate` to `last_rate`.
    draws: how often `negatives` are drawn for a word; its contexts share them all, each with a part of the weight.
    sample: words that make up more than this share of the text are dropped at random; 0 keeps all.
    threads: of a CPU.
    deterministic: the same bits on every run and with any number of threads, if the chunks are the same. On a CPU.
    done: tokens that were trained on before.
    """

    words: Tensor
    contexts: Tensor
    width: int
    frequencies: NDArray[np.int64]
    total: int
    window: int = 5
    negatives: int = 5
    draws: int = 2
    sample: float = 1e-3
    power: float = POWER
    rate: float = 0.025
    last_rate: float = 1e-4
    seed: int = 0
    threads: int | None = None
    deterministic: bool = False
    done: int = 0

    def __post_init__(self) -> None:
        self._counted: NDArray[Any] | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Checks all fields, and makes the tables that follow from them, again where a field was replaced."""
        if self.frequencies is not self._counted:
            self.frequencies = self._counted = _counted(self.frequencies)
            self._tables_of: tuple[Any, ...] | None = None
        _check(self)
        settings = self.power, self.sample, self.window, self.negatives, self.rate, self.words.device
        if settings == self._tables_of:
            return
        noise = Noise.of_frequencies(torch.from_numpy(self.frequencies.astype(np.float64)), self.power)
        shares = self.frequencies / self.frequencies.sum(dtype=np.float64)
        keep = kept_share(shares, self.sample)
        device = self.words.device
        self._thresholds, self._aliases = noise.thresholds.float().to(device), noise.aliases.int().to(device)
        self._keep = torch.from_numpy(keep).float().to(device)
        self._block = _block(shares * keep, noise.probabilities.numpy(), self)
        self._tables_of = settings

    @classmethod
    def fresh(
        cls,
        frequencies: NDArray[np.int64],
        width: int,
        total: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> Self:
        """With vectors as in word2vec: small random words, contexts of zeros."""
        _check_whole("width", width)
        _check_whole("seed", seed, 0, 2**64 - 1)
        generator = np.random.default_rng(seed)
        start = (generator.random((len(frequencies), width), dtype=np.float32) - np.float32(0.5)) / np.float32(width)
        words = padded(torch.from_numpy(start)).to(device)
        return cls(words, torch.zeros_like(words), width, frequencies, total, seed=seed, **options)

    @property
    def vectors(self) -> Tensor:
        """The words' vectors without their padding, (V, D)."""
        return self.words[:, : self.width]

    def rate_after(self, tokens: int) -> float:
        """The learning rate when so many tokens are done."""
        return max(self.last_rate, self.rate + (self.last_rate - self.rate) * tokens / self.total)

    @torch.no_grad()
    def train(self, tokens: Tensor) -> ChunkResult:
        """Once through a chunk: (T,) int32 numbers of words, END between sentences."""
        self._prepare()
        real = _counted_tokens(tokens, len(self.words))
        # Two random streams for a chunk, one to drop words and one to draw them, that no other chunk shares.
        drop, draw = np.random.SeedSequence([self.seed, self.done]).generate_state(2, np.uint64)
        rates = self.rate_after(self.done), self.rate_after(self.done + real)
        kernel = self._by_numba if self.words.device.type == "cpu" else self._by_triton
        kept, pairs, loss = kernel(tokens.to(self.words.device), drop, draw, rates)
        # Kernels write by address: autograd's version counters make a backward pass over the old values fail.
        increment_version([vectors for vectors in (self.words, self.contexts) if not vectors.is_inference()])
        self.done += real
        self._check_health(loss / max(1, pairs))
        return ChunkResult(real, kept, pairs, loss / pairs if pairs else math.nan, rates[1])

    def _by_numba(
        self, tokens: Tensor, drop: np.uint64, draw: np.uint64, rates: tuple[float, float]
    ) -> tuple[int, int, float]:
        """Words that were kept, pairs and loss."""
        kernels = _kernels()
        import numba

        parts, width = self.threads or os.cpu_count() or 1, self.words.shape[1]
        with _ONE_AT_A_TIME:
            numba.set_num_threads(min(parts, numba.config.NUMBA_NUM_THREADS))
            kept = np.empty(len(tokens), np.int32)
            kept = kept[: kernels.subsample(tokens.numpy(), self._keep.numpy(), drop, kept)]
            rows = (kept, self.words.data_ptr(), self.contexts.data_ptr(), 4 * width)
            negatives, share = self.negatives * self.draws, np.float32(1 / self.draws)
            noise = (self._thresholds.numpy(), self._aliases.numpy(), self.window, negatives, share)
            course = (np.float32(rates[0]), np.float32(rates[1]), draw, parts)
            if self.deterministic:
                previous, changes = (np.empty((self._block, width), np.float32) for _ in range(2))
                room = (self._block, previous.ctypes.data, changes.ctypes.data)
                pairs, loss = kernels.in_blocks(*rows, *noise, *course, *room)
            else:
                changes = np.empty((parts, width), np.float32)
                pairs, loss = kernels.shared_memory(*rows, *noise, *course, changes.ctypes.data)
        return int(np.count_nonzero(kept >= 0)), int(pairs), float(loss)

    def _by_triton(
        self, tokens: Tensor, drop: np.uint64, draw: np.uint64, rates: tuple[float, float]
    ) -> tuple[int, int, float]:
        """The same on a GPU."""
        from porism.layers.skipgram.kernels import triton

        kept, length = triton.subsample(tokens, self._keep, int(drop))
        pairs, losses = triton.walk(
            kept, length, self.words, self.contexts, self._thresholds, self._aliases, self.window,
            self.negatives * self.draws, 1 / self.draws, *rates, int(draw), min(self._block, self._streams()),
        )  # fmt: skip
        # Read together: each time that a number is waited for the GPU stands still.
        words, all_pairs, loss = torch.stack([(kept >= 0).sum(), pairs.sum(), losses.sum()]).tolist()
        return int(words), int(all_pairs), loss

    def _streams(self) -> int:
        """Parts of the text that are trained on at once."""
        return STREAMS * torch.cuda.get_device_properties(self.words.device).multi_processor_count

    def _check_health(self, loss: float) -> None:
        """Raises where training has diverged."""
        # A row with NaN makes the sum NaN; checking each one would take longer.
        finite = math.isfinite(float(self.words.sum().double() + self.contexts.sum().double()))
        # The loss of vectors of zeros.
        at_zero = (1 + self.negatives) * math.log(2)
        if not finite or loss > MOST_LOSS * at_zero:
            raise DivergedError(
                f"skipgram: training diverged within {self.done} tokens: the loss is {loss:.3g}, that of zeros "
                f"{at_zero:.3g}. Start again with a rate below {self.rate:g}."
            )


def padded(vectors: Tensor) -> Tensor:
    """(V, D) -> (V, P): float32 with zeros up to a multiple of ALIGNED. They stay zeros in training."""
    check_operands("skipgram", vectors=vectors)
    if vectors.dim() != 2:
        raise ShapeError(f"skipgram: vectors are {tuple(vectors.shape)}, expected (V, D). Reshape them.")
    V, D = vectors.shape
    wide = vectors.new_zeros((V, -(-D // ALIGNED) * ALIGNED), dtype=torch.float32)
    wide[:, :D] = vectors
    return wide


def kept_share(shares: NDArray[np.float64], sample: float) -> NDArray[np.float64]:
    """The probability to keep a word that makes up a share of the text: sqrt(sample / share) + sample / share, or 1.

    >>> kept_share(np.array([0.06, 0.0001]), 1e-3).round(3)
    array([0.146, 1.   ])
    """
    if sample == 0:
        return np.ones_like(shares)
    with np.errstate(over="ignore"):  # what is beyond all numbers is kept
        return np.minimum(1, np.sqrt(sample / shares) + sample / shares)


def _block(weights: NDArray[np.float64], noise: NDArray[np.float64], trainer: Trainer) -> int:
    """Words whose updates can be computed side by side: the fewer, the more frequent a word or negative is."""
    # A word has window + 1 contexts on average: as many gradients for it, and m times as many for negatives.
    often = (trainer.window + 1) * (weights / weights.sum() + trainer.negatives * noise).max()
    return max(1, min(LARGEST_BLOCK, int(MOST_WEIGHT / (trainer.rate * often))))


def _kernels() -> ModuleType:
    try:
        from porism.layers.skipgram.kernels import numba as kernels
    except ImportError:
        raise MissingExtra('training words needs numba, which is not installed: pip install "porism[words]"') from None
    return kernels


def _counted(frequencies: Any) -> NDArray[Any]:
    """A copy that cannot be written to."""
    counted = np.array(frequencies)
    if counted.dtype.kind not in "iuf" or counted.ndim != 1:
        raise ShapeError(
            f"skipgram: frequencies are {counted.shape} of {counted.dtype}, expected (V,) of whole numbers. "
            "Give one number for each word."
        )
    counted.setflags(write=False)
    return counted


def _check(trainer: Trainer) -> None:
    """Before addresses go to a kernel, which has no checks."""
    _check_whole("width", trainer.width)
    _check_vectors(trainer)
    if trainer.deterministic and trainer.words.device.type != "cpu":
        raise RecipeError(
            f"skipgram: deterministic is for a CPU, and the vectors are on {trainer.words.device}. "
            "Train them on the CPU, or without deterministic."
        )
    for name in ("window", "negatives", "draws"):
        _check_whole(name, getattr(trainer, name), most=MOST_ROWS)
    rows = 2 * trainer.window + trainer.negatives * trainer.draws
    if rows > MOST_ROWS:
        raise RecipeError(
            f"skipgram: a word would reach {rows} rows, {trainer.window} words to either side and "
            f"{trainer.negatives * trainer.draws} negatives, at most {MOST_ROWS} are possible. Choose a smaller window."
        )
    _check_whole("total", trainer.total, most=2**63 - 1)
    _check_whole("done", trainer.done, 0, 2**63 - 1)
    _check_whole("seed", trainer.seed, 0, 2**64 - 1)
    if trainer.threads is not None:
        _check_whole("threads", trainer.threads, most=MOST_THREADS, other=", or None for all cores")
    for name in ("rate", "last_rate", "sample", "power"):
        value = getattr(trainer, name)
        if not isinstance(value, Real) or not math.isfinite(value):
            raise RecipeError(f"skipgram: {name} is {value!r}. Give a finite number.")
    if not 0 < trainer.last_rate <= trainer.rate:
        raise RecipeError(
            f"skipgram: the rate falls from {trainer.rate} to {trainer.last_rate}. "
            "Give numbers above 0, the larger first."
        )
    if trainer.sample < 0:
        raise RecipeError(f"skipgram: sample is {trainer.sample}. Give a share such as 0.001, or 0 to keep all words.")


def _check_vectors(trainer: Trainer) -> None:
    words, contexts = trainer.words, trainer.contexts
    check_operands("skipgram", words=words, contexts=contexts)
    V, D = len(trainer.frequencies), trainer.width
    expected = (V, -(-D // ALIGNED) * ALIGNED)
    for name, vectors in (("words", words), ("contexts", contexts)):
        dense = vectors.is_contiguous() and not vectors.is_neg()
        if tuple(vectors.shape) != expected or vectors.dtype != torch.float32 or not dense:
            raise ShapeError(
                f"skipgram: {name} are {tuple(vectors.shape)} of {vectors.dtype}, expected {expected} of torch.float32 "
                f"without gaps, for {V} words of width {D}. Make them with padded."
            )
    if words.device.type not in ("cpu", "cuda"):
        raise ShapeError(f"skipgram: words are on {words.device}, expected a CPU or a CUDA device. Move both there.")
    if abs(words.data_ptr() - contexts.data_ptr()) < words.nbytes:
        raise ShapeError(
            "skipgram: words and contexts share their memory, expected two matrices. Pass contexts.clone()."
        )


def _check_whole(name: str, value: Any, least: int = 1, most: int = MOST, other: str = "") -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise RecipeError(f"skipgram: {name} is {value!r}. Give a whole number from {least} to {most}{other}.")


def _counted_tokens(tokens: Tensor, vocabulary: int) -> int:
    """The words of a chunk, ends of sentences left out, once it is checked."""
    if not isinstance(tokens, Tensor) or tokens.layout is not torch.strided or tokens.is_meta:
        kind = f"{tokens.layout} on {tokens.device}" if isinstance(tokens, Tensor) else type(tokens).__name__
        raise ShapeError(f"skipgram: tokens are {kind}, expected a dense tensor with numbers. Use torch.tensor.")
    if tokens.ndim != 1 or tokens.dtype != torch.int32:
        raise ShapeError(
            f"skipgram: tokens are {tuple(tokens.shape)} of {tokens.dtype}, expected (T,) of torch.int32. "
            "Convert with tokens.int()."
        )
    if len(tokens) == 0:
        return 0
    least, most, words = torch.stack([*tokens.aminmax(), (tokens >= 0).sum()]).tolist()
    if not END <= least <= most < vocabulary:
        raise ShapeError(
            f"skipgram: tokens run from {least} to {most}, expected 0 to {vocabulary - 1}, "
            f"and {END} between sentences. Leave out words that are not in the vocabulary."
        )
    return int(words)
