"""What people import: the word vectors, and the loss of predicting contexts by the softmax or an estimate of it."""

import math
from numbers import Real

import torch
from torch import Tensor, nn

from porism.errors import RecipeError, ShapeError
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_whole
from porism.layers.skipgram.estimators import estimate
from porism.layers.skipgram.functional import (
    CHOICES,
    _check_samples,
    _check_words,
    _descend_rows,
    _sampled_loss,
    skipgram,
)
from porism.layers.skipgram.gradient import sampled_gradient
from porism.layers.skipgram.noise import POWER, Noise


class SkipGram(nn.Module):
    """Vectors of words that predict the words around them.

    loss = -log softmax(U v_i)[j], or what `estimator` makes of it from `samples` words drawn from the noise

    >>> model = SkipGram(10_000, 100, "negative", samples=5)
    >>> words, contexts = torch.randint(10_000, (512,)), torch.randint(10_000, (512,))
    >>> loss = model(words, contexts)                           # B, B -> a scalar: 6 log 2, since U begins at 0
    >>> model.descend(words, contexts, rate=0.025)              # a step without V D gradients
    tensor(4.1589)

    `frequencies` (V,) are the words' numbers in the text: noise is drawn in proportion to their power 0.75, and without
    them all words alike. Samples that are given, (B, m), are taken to come from there.

    Shapes: words (B,), contexts (B,), samples (B, m) -> a scalar.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        estimator: str = "full",
        samples: int = 5,
        frequencies: Tensor | None = None,
        power: float = POWER,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("vocabulary", vocabulary), ("width", width), ("samples", samples)):
            check_whole("skipgram", name, size)
        if estimator not in CHOICES:
            raise ShapeError(f"skipgram: estimator is {estimator!r}. Choose from {', '.join(CHOICES)}.")
        if estimator == "uniform" and frequencies is not None:
            raise ShapeError(
                "skipgram: uniform draws all words alike, and frequencies were given. "
                "Leave them out, or take importance."
            )
        if frequencies is not None and tuple(frequencies.shape) != (vocabulary,):
            raise ShapeError(
                f"skipgram: frequencies are {tuple(frequencies.shape)}, wanted ({vocabulary},). "
                "Give one number for each word."
            )
        self.vocabulary, self.width, self.estimator, self.samples = vocabulary, width, estimator, samples
        # No buffer: a module that is cast to half precision would lose digits of the probabilities.
        self.noise = Noise.uniform(vocabulary) if frequencies is None else Noise.of_frequencies(frequencies, power)
        self.words = nn.Parameter(torch.empty(vocabulary, width, device=device, dtype=dtype))
        self.contexts = nn.Parameter(torch.empty_like(self.words, requires_grad=False))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As in word2vec: small vectors of words, zeros for contexts."""
        nn.init.uniform_(self.words, -0.5 / self.width, 0.5 / self.width)
        nn.init.zeros_(self.contexts)

    def forward(self, words: Tensor, contexts: Tensor, samples: Tensor | None = None) -> Tensor:
        _check_words("words", words, None, self.words)
        v = nn.functional.embedding(words.long(), self.words)
        if self.estimator == "full":
            return skipgram(v, self.contexts, contexts)
        noise = self._noise_here()
        k = noise.draw((len(words), self.samples)) if samples is None else samples
        return _sampled_loss(v, self.contexts, contexts, k, noise.probabilities, self.estimator)

    @torch.no_grad()
    def descend(self, words: Tensor, contexts: Tensor, rate: float, samples: Tensor | None = None) -> Tensor:
        """A step of plain gradient descent on the sum of the losses, in place; answers their mean before it.

        Only rows that were reached are touched, where an optimiser would walk through all V of them.
        """
        _check_words("words", words, None, self.words)
        _check_words("contexts", contexts, tuple(words.shape), self.contexts)
        if self.estimator == "full":
            raise ShapeError("skipgram: full reaches every row. Use an optimiser, or choose another estimator.")
        if (type(rate) is not float and not isinstance(rate, Real)) or not math.isfinite(rate):
            raise RecipeError(f"skipgram: rate is {rate!r}. Give a finite number, such as 0.025.")
        noise = self._noise_here()
        if samples is not None:
            _check_samples(samples, len(words), self.contexts)
        k = noise.draw((len(words), self.samples)) if samples is None else samples
        i, j, k = words.long(), contexts.long(), k.long()
        with without_autocast(self.words):
            v = self.words[i]
            found = estimate(self.estimator, v, self.contexts, j, k, noise.probabilities)
            hand = sampled_gradient(found, v, self.contexts, j, k)
            _descend_rows(self.words, i, hand.v, rate)
            _descend_rows(self.contexts, hand.rows.flatten(), hand.u.flatten(0, 1), rate)
            return found.losses.mean().to(v.dtype)

    def extra_repr(self) -> str:
        return f"{self.vocabulary}, {self.width}, estimator={self.estimator!r}, samples={self.samples}"

    def _noise_here(self) -> Noise:
        """The noise where the words are."""
        self.noise = self.noise.to(self.words.device)
        return self.noise
