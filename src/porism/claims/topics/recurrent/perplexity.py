"""Perplexity and cross-entropy: where one is the exponential of the other.

The truth is the layer's cross-entropy (`layers/readout`) and the task's own perplexity (`tasks/language/metric`).
"""

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from porism.claims.checks.compare import ROUNDING, answered, compared
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.recurrent.step import cross_entropy
from porism.runs.exhibits import Lines
from porism.tasks.language.metric import Perplexity

OfPrediction = Callable[[Tensor, Tensor], Tensor]
"""From labels y and predictions yhat of T words, (T, V) each."""


class InBase(Protocol):
    def __call__(self, y: Tensor, yhat: Tensor, base: float) -> Tensor: ...


def predictions(T: int, V: int = 7, seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(T, V, generator=draw, dtype=torch.float64).softmax(1)


def one_word_each(T: int, V: int = 7, seed: int = 2) -> Tensor:
    words = torch.randint(V, (T,), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.one_hot(words, V).double()


def nats(y: Tensor, yhat: Tensor) -> float:
    """The mean cross-entropy, a softmax of logarithms being the prediction itself."""
    return float(torch.stack([cross_entropy(y[t : t + 1], yhat[t : t + 1].log()) for t in range(len(y))]).mean())


def measured_perplexity(y: Tensor, yhat: Tensor) -> float:
    """As the language task measures it."""
    meter = Perplexity()
    meter.add(nats(y, yhat) * len(y), len(y))
    return meter.metrics()["perplexity"]


WORDS = 21
LABELS, PREDICTED = one_word_each(WORDS), predictions(WORDS)
"""A text: labels that are one word each, and what was predicted, (T, V)."""


def word_by_word() -> Iterator[tuple[str, Tensor, Tensor]]:
    """Label and prediction of every word of the text, (1, V) each."""
    for t in range(WORDS):
        yield f"word {t + 1}", LABELS[t : t + 1], PREDICTED[t : t + 1]


def perplexity_of_a_word(form: OfPrediction) -> Finding:
    """Both numbers of form(y, yhat) against the task's perplexity, for labels that are one word."""
    return compared((where, [measured_perplexity(y, yhat)] * 2, form(y, yhat)) for where, y, yhat in word_by_word())


def cross_entropy_of_a_word(form: OfPrediction) -> Finding:
    """form(y, yhat) against the layer's cross-entropy, for labels that are one word."""
    return compared((where, nats(y, yhat), form(y, yhat)) for where, y, yhat in word_by_word())


def cross_entropy_from_perplexity(form: Callable[[Tensor], Tensor]) -> Finding:
    """form(perplexity) against the layer's cross-entropy: of each word, and of a text.

    A word's perplexity is one over its probability, that of a text the geometric mean of its words'.
    """
    words = [(where, nats(y, yhat), form(1 / yhat[y == 1].prod())) for where, y, yhat in word_by_word()]
    of_text = (1 / PREDICTED[LABELS == 1]).prod() ** (1 / WORDS)
    return compared([*words, (f"a text of {WORDS} words", nats(LABELS, PREDICTED), form(of_text))])


def perplexity_in_a_base(form: InBase) -> Finding:
    """form(y, yhat, base) against the task's perplexity of many words, in several bases."""
    true = measured_perplexity(LABELS, PREDICTED)
    return compared((f"base {base:.3g}", true, form(LABELS, PREDICTED, base)) for base in (2.0, math.e, 10.0, 0.5))


def bases_that_work(form: Callable[[float], bool]) -> Finding:
    """form(base), whether a base may be used, against trying it: b to the cross-entropy in base b is the perplexity."""
    in_nats, perplexity = nats(LABELS, PREDICTED), measured_perplexity(LABELS, PREDICTED)

    def works(base: float) -> bool:
        try:
            return math.isclose(base ** (in_nats / math.log(base)), perplexity, rel_tol=ROUNDING)
        except (ValueError, ZeroDivisionError):
            # No real logarithm to this base.
            return False

    bases = (-3.0, -2.0, -1.0, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, math.e, 3.0, 10.0)
    return answered((f"Does base {base:.3g} do?", works(base), form(base)) for base in bases)


def _inverse_probability(y: Tensor, yhat: Tensor) -> Tensor:
    """The source's perplexity of each word, (T,)."""
    return (y * yhat).sum(1).reciprocal()


def _weighted_logarithms(y: Tensor, yhat: Tensor) -> Tensor:
    """The cross-entropy of each word, (T,)."""
    logarithms: Tensor = torch.special.xlogy(y, yhat)
    return -logarithms.sum(1)


def _label_between_two_words() -> Lines:
    yhat = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
    both, inverse = [], []
    for share in torch.linspace(0, 1, 51, dtype=torch.float64).tolist():
        y = torch.tensor([[1 - share, share, 0]], dtype=torch.float64)
        both.append((share, nats(y, yhat)))
        inverse.append((share, float(_inverse_probability(y, yhat).log())))
    return Lines(
        title="A label that is shared by two words",
        about="Predicted with 0.7 and 0.2. The two agree where the label is one word, and nowhere between.",
        x="share of the second word",
        y="nats",
        lines={"cross-entropy": both, "log of 1 / sum of y yhat": inverse},
    )


def _perplexity(id: str, where: str) -> Statement:
    return Claim(
        id=id,
        topic="recurrent",
        where=where,
        says=(
            "With a one-hot label the perplexity of a word is one over the sum of y yhat, which is one over the "
            "probability that the right word was given."
        ),
        verdict="holds",
        precise=(
            "Where a label is spread over words, the perplexity is the product of the inverse probabilities, each to "
            "the power of its weight; the inverse of the mean probability is at most that."
        ),
        formulas=("1/yhat_z",),
        judge=perplexity_of_a_word,
        stated=lambda y, yhat: torch.stack([_inverse_probability(y, yhat)[0], 1 / yhat[0, y.argmax()]]),
        # Of the word that is likeliest, right or not.
        rival=lambda y, yhat: torch.stack([_inverse_probability(y, yhat)[0], 1 / yhat.max()]),
    )


def _logarithm(id: str, where: str) -> Statement:
    return Claim(
        id=id,
        topic="recurrent",
        where=where,
        says="With one-hot labels the cross-entropy is the logarithm of the perplexity.",
        verdict="holds",
        precise=(
            "The natural logarithm, as in the cross-entropy. The perplexity of a text is the geometric mean of its "
            "words', which is at most their mean. With a spread label the cross-entropy is larger than the logarithm "
            "of 1 / sum y yhat, or equal where all words of the label are predicted alike."
        ),
        formulas=("log(PP)",),
        picture=_label_between_two_words,
        judge=cross_entropy_from_perplexity,
        stated=torch.log,
        # In bits.
        rival=torch.log2,
    )


CLAIMS: tuple[Statement, ...] = (
    _perplexity("000-02", "I.1(c)"),
    Claim(
        id="000-03",
        topic="recurrent",
        where="I.1(c)",
        says="With a one-hot label the cross-entropy is -log of the probability of the right word.",
        verdict="holds",
        precise="Where a label is spread over words, the logarithms of all its words are weighed by it.",
        formulas=("-log(yhat_z)",),
        judge=cross_entropy_of_a_word,
        stated=lambda y, yhat: -yhat[0, y.argmax()].log(),
        # As if every word had a yes or no of its own.
        rival=lambda y, yhat: -yhat[0, y.argmax()].log() - (1 - yhat[y == 0]).log().sum(),
    ),
    _logarithm("000-04", "I.1(c)"),
    _perplexity("001-28", "1(c)"),
    _logarithm("001-29", "1(c)"),
    Claim(
        id="001-30",
        topic="recurrent",
        where="1(c)",
        says="The perplexity is b to the cross-entropy in base b, whatever the base.",
        verdict="holds",
        formulas=("b**CE_b",),
        judge=perplexity_in_a_base,
        stated=lambda y, yhat, base: base ** (_weighted_logarithms(y, yhat).mean() / math.log(base)),
        # Bits as the power of e.
        rival=lambda y, yhat, base: (_weighted_logarithms(y, yhat).mean() / math.log(base)).exp(),
    ),
    Claim(
        id="001-31",
        topic="recurrent",
        where="1(c)",
        says="The base b can be any integer.",
        verdict="wrong",
        precise="Any positive number but one: 0, 1 and negative integers have no logarithm, and e is no integer.",
        judge=bases_that_work,
        stated=lambda base: base.is_integer(),
        corrected=lambda base: base > 0 and base != 1,
        right_where=lambda base: base.is_integer() and base > 1,
    ),
)
