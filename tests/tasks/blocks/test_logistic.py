"""Logistic regression as a baseline: its probabilities, chosen on valid, finite for every class."""

import numpy as np
import pytest

from porism.tasks.blocks.logistic import fit_logistic, sklearn_missing


def test_probabilities_are_finite_and_sum_to_one_over_the_classes_of_train() -> None:
    inputs, labels = np.array([[-1e4], [-9e3], [9e3], [1e4]]), np.array([0, 0, 2, 2])
    model = fit_logistic(inputs, labels, inputs, labels, classes=3)
    found = model.log_probs(inputs)
    assert found.argmax(1).tolist() == labels.tolist()
    assert bool(found.isfinite().all())
    assert found[:, [0, 2]].exp().sum(1).tolist() == pytest.approx([1.0] * 4)
    # Half an example of four.
    assert found[:, 1].exp().tolist() == pytest.approx([0.125] * 4)


def test_the_regularization_is_the_best_on_valid() -> None:
    # Ten of a hundred labels of train are wrong where the second feature tells them by heart; valid knows better.
    generator = np.random.default_rng(0)
    first = generator.normal(size=100)
    labels = (first > 0).astype(np.int64)
    seen = labels.copy()
    seen[:10] = 1 - seen[:10]
    heart = np.eye(100)[:, :10] * 50
    train = np.column_stack([first, heart * (2 * seen[:, None] - 1)])
    valid = np.column_stack([first, np.zeros((100, 10))])
    model = fit_logistic(train, seen, valid, labels, classes=2)
    others = [
        (fit_logistic(train, seen, valid[:1], labels[:1], classes=2).accuracy(valid, labels)),
        (fit_logistic(train, seen, train, seen, classes=2).accuracy(valid, labels)),
    ]
    assert model.accuracy(valid, labels) >= max(others)
    assert sklearn_missing("logistic regression") == []
