"""The case of skipgram."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import Case, Inputs, Mistake
from torch import Tensor

from porism.layers.skipgram import SkipGram, sampled_loss
from porism.layers.skipgram import naive as skipgram_naive
from porism.layers.skipgram import skipgram as skipgram_loss
from porism.layers.skipgram.cost import cost as skipgram_cost


def _naive_skipgram(layer: SkipGram, inputs: Inputs) -> Tensor:
    words, contexts = inputs["word"], inputs["context"]
    return skipgram_naive.loss(layer.weight[words], layer.context_weight, contexts) / len(words)


_PAIR = torch.tensor([0, 3])


def _skipgram(
    words: Any = _PAIR, contexts: Any = _PAIR, samples: Any = None, estimator: str = "full"
) -> Callable[[], Tensor]:
    return lambda: SkipGram(9, 5, estimator)(words, contexts, samples)


def _sampled(estimator: str = "nce", **parts: Any) -> Callable[[], Tensor]:
    operands = {"v": torch.zeros(2, 5), "U": torch.zeros(9, 5), "context": _PAIR, "q": torch.full((9,), 1 / 9)}
    samples = torch.zeros(2, 3, dtype=torch.long)
    return lambda: sampled_loss(**{**operands, "negatives": samples, **parts}, estimator=estimator)


SKIPGRAM = Case(
    build=lambda n: SkipGram(n["V"], n["D"]),
    inputs=lambda n: {name: torch.randint(n["V"], (n["B"],)) for name in ("word", "context")},
    run=lambda layer, inputs: layer(inputs["word"], inputs["context"]),
    naive=_naive_skipgram,
    cost=skipgram_cost,
    mistakes=(
        Mistake("no words", lambda: SkipGram(0, 5), r"num_embeddings is 0\. Give a whole number from 1 on"),
        Mistake("no width", lambda: SkipGram(9, 0), r"embedding_dim is 0\. Give"),
        Mistake("no samples", lambda: SkipGram(9, 5, "nce", negative=0), r"negative is 0\. Give"),
        Mistake(
            "estimator",
            lambda: SkipGram(9, 5, "softmax"),
            r"estimator is 'softmax'\. Choose from full, uniform, importance, self-normalised, sampled-softmax, nce",
        ),
        Mistake("estimator of a sample", _sampled("full"), r"estimator is 'full'\. Choose from uniform, importance"),
        Mistake(
            "uniform by frequency",
            lambda: SkipGram(9, 5, "uniform", counts=torch.ones(9)),
            r"uniform draws all words alike, and counts were given\. Leave them out, or take importance\.",
        ),
        Mistake(
            "frequencies of others",
            lambda: SkipGram(9, 5, counts=torch.ones(8)),
            r"counts are \(8,\), expected \(9,\)\. Give one number for each word",
        ),
        Mistake(
            "words that never occur",
            lambda: SkipGram(2, 5, counts=torch.tensor([3, 0])),
            r"frequencies run from 0 to 3, expected numbers above 0\. Leave words that never occur out",
        ),
        Mistake(
            "a matrix of words",
            _skipgram(words=_PAIR[None]),
            r"center words are \(1, 2\), expected \(B,\)\. Flatten them",
        ),
        Mistake(
            "too few contexts",
            _skipgram(contexts=_PAIR[:1]),
            r"context words are \(1,\), expected \(2,\), as many as c",
        ),
        Mistake(
            "none",
            _skipgram(words=_PAIR[:0], contexts=_PAIR[:0]),
            r"center words are empty, \(0,\), expected one or more",
        ),
        Mistake(
            "fractions",
            _skipgram(words=torch.zeros(2)),
            r"center words are torch\.float32, expected whole numbers\. Convert",
        ),
        Mistake("beyond", _skipgram(words=_PAIR + 6), r"center words run from 6 to 9, expected 0 to 8\. Number them"),
        Mistake("below", _skipgram(contexts=_PAIR - 1), r"context words run from -1 to 2, expected 0 to 8"),
        Mistake(
            "samples of other pairs",
            _skipgram(samples=torch.zeros(3, 4).long(), estimator="nce"),
            r"negatives are \(3, 4\), expected \(2, m\) with m from 1 on, for each pair\. Leave them out",
        ),
        Mistake(
            "samples beyond",
            _sampled(negatives=torch.full((2, 3), 9)),
            r"negatives run from 9 to 9, expected 0 to 8\. Number",
        ),
        Mistake(
            "probabilities of others", _sampled(q=torch.ones(8)), r"q is \(8,\), expected \(9,\)\. Give a probability"
        ),
        Mistake(
            "widths",
            lambda: skipgram_loss(torch.zeros(2, 5), torch.zeros(9, 4), _PAIR),
            r"v is \(2, 5\) and U \(9, 4\), expected \(B, D\) and \(V, D\) of one width",
        ),
        Mistake(
            "type", _sampled(v=torch.zeros(2, 5).double()), r"v is torch\.float64, U is torch\.float32, expected one t"
        ),
        Mistake("truths for numbers", lambda: SkipGram(True, 5), r"num_embeddings is True\. Give a whole number"),
        Mistake(
            "a list of words", _skipgram(words=[0, 3]), r"center words are a list, expected a tensor of whole numbers"
        ),
        Mistake(
            "words elsewhere", _skipgram(words=_PAIR.to("meta")), r"center words are on meta, expected cpu\. Move them"
        ),
        Mistake("contexts elsewhere", _sampled(context=_PAIR.to("meta")), r"context words are on meta, expected cpu"),
        Mistake(
            "samples elsewhere",
            _sampled(negatives=torch.zeros(2, 3, device="meta").long()),
            r"negatives are on meta, expected",
        ),
        Mistake(
            "true contexts", _sampled(context=_PAIR.bool()), r"context words are torch\.bool, expected whole numbers"
        ),
        Mistake(
            "vectors elsewhere", _sampled(U=torch.zeros(9, 5, device="meta")), r"U is on meta, v on cpu, expected one"
        ),
        Mistake("whole vectors", _sampled(v=torch.zeros(2, 5).long()), r"v is torch\.int64, expected one of float32"),
        Mistake(
            "complex vectors", _sampled(U=torch.zeros(9, 5) + 0j), r"U is torch\.complex64, expected one of float32"
        ),
        Mistake("counts for q", _sampled(q=torch.ones(9).long()), r"q is torch\.int64, expected one of float32"),
        Mistake(
            "frequencies for q", _sampled(q=torch.full((9,), 3.0)), r"q runs from 3 to 3, expected probabilities above"
        ),
        Mistake(
            "q elsewhere", _sampled(q=torch.ones(9, device="meta")), r"q is on meta, U on cpu, expected one device"
        ),
        Mistake("reduction", _sampled(reduction="none"), r"reduction is 'none'\. Choose mean or sum\."),
        Mistake(
            "a step of all rows",
            lambda: SkipGram(9, 5).sgd_step(_PAIR, _PAIR, lr=0.1),
            r"full reaches every row\. Use an optimizer, or choose another estimator",
        ),
    ),
)
