"""Language models without a net, to set a result beside: unigram, and interpolated Kneser-Ney of the orders 2 to 5.

For a context h of k - 1 words and its count c(h w) of a word w, with h' the context without its first word:

    p_k(w | h) = max(c(h w) - d_k, 0) / c(h)  +  d_k n(h) / c(h) * p_{k-1}(w | h'),      p_0(w) = 1 / V

c(h) is the sum of c(h w) over w, n(h) the number of words with c(h w) > 0, and p_k = p_{k-1} where c(h) is 0. A model
of order n counts occurrences at k = n; below, c(h w) is the number of words that h w follows (Kneser and Ney 1995). One
discount an order: d_k = n1 / (n1 + 2 n2), of the numbers of k-grams that are counted once and twice.

>>> train, test = torch.tensor([0, 1, 0, 1, 0, 2]), torch.tensor([0, 1, 0])
>>> baseline_cross_entropies(train, {"test": test}, vocab_size=3)["Kneser-Ney 2"]
{'test': 0.25417976563539857}
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

ORDERS = (1, 2, 3, 4, 5)
MOST_TOKENS = 20_000_000
"""Of a training stream: sorting more would take minutes and gigabytes. Longer ones have the unigram alone."""
PLAIN_DISCOUNT = 0.5
"""Where no k-gram is counted once, or none twice: nothing to estimate a discount from."""

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


def baseline_cross_entropies(
    train: Tensor, streams: Mapping[str, Tensor], vocab_size: int
) -> dict[str, dict[str, float]]:
    """Mean nats of the words of each stream from its second on, for every baseline: name, then name of the stream.

    The first words of a stream have as much context as there is.
    """
    orders = ORDERS if len(train) <= MOST_TOKENS else ORDERS[:1]
    tables = list(count_grams(train, max(orders), vocab_size))
    found: dict[str, dict[str, float]] = {}
    for name, stream in streams.items():
        for order, probabilities in word_probabilities(tables, stream, vocab_size):
            model = "unigram" if order == 1 else f"Kneser-Ney {order}"
            found.setdefault(model, {})[name] = float(-np.log(probabilities[1:]).mean())
    return found


@dataclass(frozen=True)
class _Counts:
    """c(h w) of every k-gram, c(h) and n(h) of every context, and the discount."""

    of_gram: Ids
    of_context: Ids
    words_after: Ids
    discount: float

    @classmethod
    def of(cls, of_gram: Ids, contexts: Ids, num_contexts: int) -> "_Counts":
        once, twice = int((of_gram == 1).sum()), int((of_gram == 2).sum())
        return cls(
            of_gram,
            np.bincount(contexts, weights=of_gram, minlength=num_contexts).astype(np.int64),
            np.bincount(contexts[of_gram > 0], minlength=num_contexts),
            once / (once + 2 * twice) if once and twice else PLAIN_DISCOUNT,
        )

    def probabilities(self, grams: Ids, contexts: Ids, lower: Numbers) -> Numbers:
        """p_k at every position, of p_{k-1} there. grams and contexts are -1 where they were not seen."""
        known = contexts >= 0
        total = np.where(known, self.of_context[contexts], 0)
        count = np.where(known & (grams >= 0), self.of_gram[grams], 0)
        left = self.discount * np.where(known, self.words_after[contexts], 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mixed = (np.maximum(count - self.discount, 0) + left * lower) / total
        return np.where(total > 0, mixed, lower)


@dataclass(frozen=True)
class GramCounts:
    """The k-grams of a training stream, with occurrences and with distinct words before them."""

    keys: Ids
    """Sorted: number of the context times V, plus the word."""
    occurrences: _Counts
    continuations: _Counts | None
    """None at the highest order."""


def count_grams(train: Tensor, highest: int, vocab_size: int) -> Iterator[GramCounts]:
    """The k-grams of orders 1 to `highest`, or as many orders as the stream is long."""
    stream = _numbers(train)
    grams = np.zeros(len(stream) + 1, dtype=np.int64)  # of order 0: one, at every position
    num_contexts = 1
    found: list[tuple[Ids, Ids, Ids, int]] = []
    suffixes: list[Ids] = []
    for _ in range(min(highest, len(stream))):
        # The k-gram that ends at a position has the (k-1)-gram of the position before for its context.
        words = stream[len(stream) - len(grams) + 1 :]
        keys, first, inverse, counts = np.unique(
            grams[:-1] * vocab_size + words, return_index=True, return_inverse=True, return_counts=True
        )
        suffixes.append(grams[1:][first])
        found.append((keys, counts, grams[:-1][first], num_contexts))
        grams, num_contexts = inverse.reshape(-1), len(keys)
    for k, (keys, counts, contexts, size) in enumerate(found):
        after = None
        if k + 1 < len(found):
            before = np.bincount(suffixes[k + 1], minlength=len(keys))
            after = _Counts.of(before, contexts, size)
        yield GramCounts(keys, _Counts.of(counts, contexts, size), after)


def word_probabilities(tables: Iterable[GramCounts], stream: Tensor, vocab_size: int) -> Iterator[tuple[int, Numbers]]:
    """For each order the probability of every word after the words before it. stream (T,) -> (T,)."""
    words = _numbers(stream)
    contexts = np.zeros(len(words), dtype=np.int64)  # the number of the k-gram before each word, -1 for none
    lower = np.full(len(words), 1 / vocab_size)
    for k, order in enumerate(tables, start=1):
        keys = contexts * vocab_size + words
        positions = np.searchsorted(order.keys, keys).clip(max=len(order.keys) - 1)
        grams = np.where((contexts >= 0) & (order.keys[positions] == keys), positions, -1)
        yield k, order.occurrences.probabilities(grams, contexts, lower)
        if order.continuations is not None:
            lower = order.continuations.probabilities(grams, contexts, lower)
        contexts = np.concatenate([[-1], grams[:-1]])


def _numbers(stream: Tensor) -> Ids:
    return np.asarray(stream.numpy(), dtype=np.int64)
