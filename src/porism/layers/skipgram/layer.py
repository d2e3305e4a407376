"""The word vectors that people import: trained by predicting the words around each word."""

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from porism.errors import RecipeError, ShapeError
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_whole
from porism.layers.skipgram.estimators import estimate
from porism.layers.skipgram.functional import (
    CHOICES,
    check_negatives,
    check_words,
    checked_sampled_loss,
    skipgram,
    subtract_rows,
)
from porism.layers.skipgram.gradient import sampled_gradient
from porism.layers.skipgram.noise import POWER, Noise


class SkipGram(nn.Module):
    """Skip-gram word vectors (word2vec), by the full softmax or an estimator of its gradient.

    loss = -log softmax(U v_i)[j], or what `estimator` makes of it from `negative` words drawn from the noise

    >>> model = SkipGram(10_000, 100, "negative", negative=5)
    >>> center, context = torch.randint(10_000, (512,)), torch.randint(10_000, (512,))
    >>> loss = model(center, context)                           # B, B -> a scalar: 6 log 2, since U begins at 0
    >>> model.sgd_step(center, context, lr=0.025)               # a step without V D gradients
    tensor(4.1589)

    `counts` (V,) are how often each word stands in the text: noise is drawn in proportion to their power `ns_exponent`,
    and without them all words alike. `negatives` that are given, (B, m), are taken to come from there.
    `weight` (V, D) are the vectors of words, `context_weight` (V, D) those of contexts.

    Shapes: center (B,), context (B,), negatives (B, m) -> a scalar.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        estimator: str = "full",
        negative: int = 5,
        counts: Tensor | None = None,
        ns_exponent: float = POWER,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = {"num_embeddings": num_embeddings, "embedding_dim": embedding_dim, "negative": negative}
        for name, size in sizes.items():
            check_whole("skipgram", name, size)
        if estimator not in CHOICES:
            raise ShapeError(f"skipgram: estimator is {estimator!r}. Choose from {', '.join(CHOICES)}.")
        if estimator == "uniform" and counts is not None:
            raise ShapeError(
                "skipgram: uniform draws all words alike, and counts were given. Leave them out, or take importance."
            )
        if counts is not None and tuple(counts.shape) != (num_embeddings,):
            raise ShapeError(
                f"skipgram: counts are {tuple(counts.shape)}, expected ({num_embeddings},). "
                "Give one number for each word."
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.estimator, self.negative = estimator, negative
        # No buffer: a module that is cast to half precision would lose digits of the probabilities.
        self.noise = Noise.uniform(num_embeddings) if counts is None else Noise.of_frequencies(counts, ns_exponent)
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.context_weight = nn.Parameter(torch.empty_like(self.weight, requires_grad=False))
        self.register_load_state_dict_pre_hook(_rename_keys_of_0_1)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As in word2vec: small vectors of words, zeros for contexts."""
        nn.init.uniform_(self.weight, -0.5 / self.embedding_dim, 0.5 / self.embedding_dim)
        nn.init.zeros_(self.context_weight)

    def forward(self, center: Tensor, context: Tensor, negatives: Tensor | None = None) -> Tensor:
        check_words("center words", center, None, self.weight)
        v = nn.functional.embedding(center.long(), self.weight)
        if self.estimator == "full":
            return skipgram(v, self.context_weight, context)
        noise = self._noise_here()
        k = noise.draw((len(center), self.negative)) if negatives is None else negatives
        return checked_sampled_loss(v, self.context_weight, context, k, noise.probabilities, self.estimator)

    if TYPE_CHECKING:
        __call__ = forward

    @torch.no_grad()
    def sgd_step(self, center: Tensor, context: Tensor, lr: float, negatives: Tensor | None = None) -> Tensor:
        """A step of plain gradient descent on the sum of the losses, in place; answers their mean before it.

        Only rows that were reached are touched, where an optimizer would go through all V of them.
        """
        check_words("center words", center, None, self.weight)
        check_words("context words", context, tuple(center.shape), self.context_weight)
        if self.estimator == "full":
            raise ShapeError("skipgram: full reaches every row. Use an optimizer, or choose another estimator.")
        if (type(lr) is not float and not isinstance(lr, Real)) or not math.isfinite(lr):
            raise RecipeError(f"skipgram: lr is {lr!r}. Give a finite number, such as 0.025.")
        noise = self._noise_here()
        if negatives is not None:
            check_negatives(negatives, len(center), self.context_weight)
        k = noise.draw((len(center), self.negative)) if negatives is None else negatives
        i, j, k = center.long(), context.long(), k.long()
        with without_autocast(self.weight):
            v = self.weight[i]
            found = estimate(self.estimator, v, self.context_weight, j, k, noise.probabilities)
            hand = sampled_gradient(found, v, self.context_weight, j, k)
            subtract_rows(self.weight, i, hand.v, lr)
            subtract_rows(self.context_weight, hand.rows.flatten(), hand.u.flatten(0, 1), lr)
            return found.losses.mean().to(v.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, estimator={self.estimator!r}, negative={self.negative}"

    def _noise_here(self) -> Noise:
        """The noise where the words are."""
        self.noise = self.noise.to(self.weight.device)
        return self.noise


def _rename_keys_of_0_1(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """0.1 called the vectors `words` and `contexts`."""
    for old, new in (("words", "weight"), ("contexts", "context_weight")):
        if prefix + old in state_dict and prefix + new not in state_dict:
            state_dict[prefix + new] = state_dict.pop(prefix + old)
