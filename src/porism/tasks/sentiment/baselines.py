"""Classifiers of texts without a net, to set one beside: most frequent class, naive Bayes, logistic regression.

Both of the latter read how often each word is in a text (a bag of words); the regression also reads pairs of words that
stand side by side, so that it can tell `not good` from `good`. Fitted on train, smoothing and regularization chosen on
valid, by scikit-learn.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from porism.tasks.blocks.logistic import Labels, best_on_valid, fit_logistic, sklearn_missing
from porism.tasks.blocks.texts import SPLITS
from porism.tasks.sentiment.data.reviews import CLASSES, Review, Reviews
from porism.tasks.sentiment.metric import evaluate

MOST_TEXTS = 10_000
"""Texts that a model is fitted on: with more it would outlast many a training."""
MOST_FEATURES = 50_000
"""Words and pairs, the most frequent."""
MOST_CHARACTERS = 5_000
"""Of a text that are read."""
SMOOTHING = (0.1, 0.3, 1.0, 3.0)
"""What naive Bayes adds to each count."""
WORDS = r"(?u)\w+"


def baseline_metrics(reviews: Reviews) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of each baseline on valid and test: name, then split.

    >>> baseline_metrics(load_reviews(None))["majority class"]["test"]["accuracy"]
    0.37
    """
    counts = torch.tensor(reviews.counts("train"), dtype=torch.float64)
    shares = (counts / counts.sum()).clamp(min=0.5 / float(counts.sum())).log()
    models: dict[str, Callable[[list[str]], Tensor]] = {"majority class": lambda texts: shares.expand(len(texts), -1)}
    if not sklearn_missing("") and int((counts > 0).sum()) > 1:
        models |= _bags_of_words(reviews)
    return {
        name: {split: evaluate(model(_texts(reviews.splits[split])), reviews, split) for split in SPLITS[1:]}
        for name, model in models.items()
    }


def baseline_notes(reviews: Reviews) -> list[str]:
    """What to know of them: which are left out, and whether they saw a part of train alone."""
    texts = len(reviews.splits["train"])
    part = [f"Baselines on words are fitted on {MOST_TEXTS} of {texts} texts, drawn at random."]
    return sklearn_missing("naive Bayes and logistic regression on words") or (part if texts > MOST_TEXTS else [])


def _bags_of_words(reviews: Reviews) -> dict[str, Callable[[list[str]], Tensor]]:
    from sklearn.naive_bayes import MultinomialNB

    train, valid = _part(reviews.splits["train"]), _part(reviews.splits["valid"])
    words, pairs = _counter(train, 1), _counter(train, 2)
    if words is None or pairs is None:
        # Texts without a letter or a digit.
        return {}
    labels, valid_labels = _labels(train), _labels(valid)
    bayes = best_on_valid(
        [MultinomialNB(alpha=alpha) for alpha in SMOOTHING],
        *(words(_texts(train)), labels, words(_texts(valid)), valid_labels),
        classes=len(CLASSES),
    )
    regressions = [
        fit_logistic(count(_texts(train)), labels, count(_texts(valid)), valid_labels, classes=len(CLASSES))
        for count in (words, pairs)
    ]
    return {
        "naive Bayes on words": lambda texts: bayes.log_probs(words(texts)),
        "logistic regression on words": lambda texts: regressions[0].log_probs(words(texts)),
        "logistic regression on words and pairs": lambda texts: regressions[1].log_probs(pairs(texts)),
    }


def _counter(train: Sequence[Review], longest: int) -> Callable[[list[str]], Any] | None:
    """How often each of train's words is in texts (N, words), and each run of up to `longest` of them; None of none."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(token_pattern=WORDS, ngram_range=(1, longest), max_features=MOST_FEATURES)
    try:
        vectorizer.fit(_texts(train))
    except ValueError:
        # An empty vocabulary.
        return None
    return lambda texts: vectorizer.transform(texts)


def _part(reviews: Sequence[Review]) -> Sequence[Review]:
    """All, or as many as are fitted on, drawn at random."""
    return reviews if len(reviews) <= MOST_TEXTS else random.Random(0).sample(list(reviews), MOST_TEXTS)


def _texts(reviews: Sequence[Review]) -> list[str]:
    return [review.text[:MOST_CHARACTERS] for review in reviews]


def _labels(reviews: Sequence[Review]) -> Labels:
    return np.array([review.label for review in reviews], dtype=np.int64)
