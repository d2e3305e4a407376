"""Majority class, naive Bayes and logistic regression on texts, where the right answer can be seen."""

import numpy as np
import pytest

from porism.tasks.blocks import logistic
from porism.tasks.sentiment import baselines
from porism.tasks.sentiment.baselines import baseline_metrics, baseline_notes
from porism.tasks.sentiment.data.reviews import Duplicates, Review, Reviews

THINGS = ("soup", "film", "room", "phone", "tea", "book", "car", "bag")


def reviews_of(sentences: dict[str, int]) -> Reviews:
    """Each sentence about four things in train, and about two others in valid and in test."""
    cut = {"train": THINGS[:4], "valid": THINGS[4:6], "test": THINGS[6:]}
    splits = {
        split: [Review(f"the {thing} is {text}", label) for thing in things for text, label in sentences.items()]
        for split, things in cut.items()
    }
    rows = sum(map(len, splits.values()))
    return Reviews("made", splits, Duplicates(rows, rows, 0, ()), {"valid": 0.0, "test": 0.0}, True)


NEGATED = {"good": 2, "bad": 0, "not good": 0, "not bad": 2, "not so good at all": 0, "really good": 2, "really bad": 0}


def test_pairs_of_words_tell_what_single_ones_cannot() -> None:
    found = baseline_metrics(reviews_of(NEGATED))
    assert found["logistic regression on words and pairs"]["test"]["accuracy"] == 1.0
    assert found["logistic regression on words"]["test"]["accuracy"] < 1.0
    # 4 of 7 sentences are negative in every split.
    assert found["majority class"]["test"]["accuracy"] == pytest.approx(4 / 7)
    assert set(found["naive Bayes on words"]["test"]) == set(found["majority class"]["test"])


def test_naive_bayes_is_by_the_counts() -> None:
    # Classes and their words are as many, so p(positive | good) = (4 + a) / (4 + 2 a) with smoothing a. A third class,
    # which train has not, has the share of half a text of eight.
    found = baseline_metrics(reviews_of({"good": 2, "bad": 0}))
    assert found["naive Bayes on words"]["test"]["accuracy"] == 1.0
    loss = found["naive Bayes on words"]["test"]["cross_entropy"]
    assert any(
        loss == pytest.approx(np.log((1 + 0.5 / 8) * (4 + 2 * a) / (4 + a)), abs=1e-6) for a in baselines.SMOOTHING
    )


def test_without_scikit_learn_the_majority_is_left_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "find_spec", lambda name: None)
    reviews = reviews_of(NEGATED)
    assert set(baseline_metrics(reviews)) == {"majority class"}
    assert baseline_notes(reviews)[0].startswith("Without naive Bayes and logistic regression on words: scikit-learn")


def test_a_part_of_many_texts_is_fitted_on_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_TEXTS", 20)
    reviews = reviews_of(NEGATED)
    assert baseline_notes(reviews) == ["Baselines on words are fitted on 20 of 28 texts, drawn at random."]
    assert "naive Bayes on words" in baseline_metrics(reviews)


def test_texts_without_a_word_have_the_majority_alone() -> None:
    splits = {split: [Review("!!!", 0), Review("???", 2)] for split in ("train", "valid", "test")}
    reviews = Reviews("marks", splits, Duplicates(6, 2, 0, ()), {"valid": 0.0, "test": 0.0}, False)
    assert set(baseline_metrics(reviews)) == {"majority class"}
