"""Perplexity and cross-entropy: where one is the exponential of the other.

The truth is the layer's cross-entropy (`layers/readout`) and the task's own perplexity (`tasks/language/metric`).
"""

import math
from collections.abc import Callable
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


HARD = {"one word": (one_word_each(1), predictions(1))}
SOFT = {"a label spread over words": (predictions(1, seed=3), predictions(1))}
MANY = {"21 words": (one_word_each(21), predictions(21))}


def perplexity_of_a_word(form: OfPrediction) -> Finding:
    """form(y, yhat) against the task's perplexity, for labels of one word and of several."""
    return compared((where, measured_perplexity(*pair), form(*pair)) for where, pair in (HARD | SOFT).items())


def cross_entropy_of_a_word(form: OfPrediction) -> Finding:
    """form(y, yhat) against the layer's cross-entropy, for labels of one word and of several."""
    return compared((where, nats(*pair), form(*pair)) for where, pair in (HARD | SOFT).items())


def cross_entropy_from_perplexity(form: InBase) -> Finding:
    """form(y, yhat, base) against the mean cross-entropy: one word and many, hard and soft labels, nats and bits."""
    return compared(
        (f"{where}, logarithms to base {base:.3g}", nats(*pair) / math.log(base), form(*pair, base))
        for where, pair in (HARD | SOFT | MANY).items()
        for base in (math.e, 2.0)
    )


def perplexity_in_a_base(form: InBase) -> Finding:
    """form(y, yhat, base) against the task's perplexity of many words, in several bases."""
    ((y, yhat),) = MANY.values()
    true = measured_perplexity(y, yhat)
    return compared((f"base {base:.3g}", true, form(y, yhat, base)) for base in (2.0, math.e, 10.0, 0.5))


def bases_that_work(form: Callable[[float], bool]) -> Finding:
    """form(base), whether a base may be used, against trying it: b to the cross-entropy in base b is the perplexity."""
    ((y, yhat),) = MANY.values()
    in_nats, perplexity = nats(y, yhat), measured_perplexity(y, yhat)

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
        says="The perplexity of a word is one over the sum of y yhat, which is one over the probability it was given.",
        verdict="holds under assumptions",
        precise=(
            "The label is one word. Where it is spread, the perplexity is the product of the inverse probabilities, "
            "each to the power of its weight; the inverse of the mean probability is at most that."
        ),
        formulas=("1/yhat_z",),
        judge=perplexity_of_a_word,
        stated=lambda y, yhat: _inverse_probability(y, yhat).mean(),
        corrected=lambda y, yhat: (yhat**-y).prod(),
    )


def _logarithm(id: str, where: str) -> Statement:
    return Claim(
        id=id,
        topic="recurrent",
        where=where,
        says="The cross-entropy is the logarithm of the perplexity.",
        verdict="holds under assumptions",
        precise=(
            "One word as the label, one step, and the logarithm that the cross-entropy is measured with. With a spread "
            "label the cross-entropy is larger, or equal where all words of the label are predicted alike. Over a text "
            "it is the logarithm of the geometric mean of the words' perplexities, which is at most their mean."
        ),
        formulas=("log(PP)",),
        picture=_label_between_two_words,
        judge=cross_entropy_from_perplexity,
        stated=lambda y, yhat, base: _inverse_probability(y, yhat).mean().log(),
        corrected=lambda y, yhat, base: _weighted_logarithms(y, yhat).mean() / math.log(base),
    )


CLAIMS: tuple[Statement, ...] = (
    _perplexity("000-02", "I.1(c)"),
    Claim(
        id="000-03",
        topic="recurrent",
        where="I.1(c)",
        says="The cross-entropy is -log of the probability of the right word.",
        verdict="holds under assumptions",
        precise="The label is one word. Where it is spread, the logarithms of all its words are weighed by it.",
        formulas=("-log(yhat_z)",),
        judge=cross_entropy_of_a_word,
        stated=lambda y, yhat: -yhat[0, y.argmax()].log(),
        corrected=lambda y, yhat: _weighted_logarithms(y, yhat).mean(),
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
    ),
)
