"""Accuracy with its chance level, of negated opinions alone, and of texts that train does not have."""

import pytest
import torch

from porism.tasks.sentiment.data.reviews import Review, from_splits
from porism.tasks.sentiment.metric import evaluate, macro_f1

TRAIN = [Review("a", 0), Review("b", 1), Review("c", 2), Review("d", 2)]
TEST = [Review("A", 0), Review("x", 1, True), Review("y", 2, False), Review("z", 2, True)]


def said(*labels: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), 3).double() * 9


def test_every_part_is_measured() -> None:
    splits = {"train": TRAIN, "valid": TEST, "test": TEST}
    found = evaluate(said(0, 1, 1, 2), from_splits("x", splits, deduplicate=False), "test")
    assert found["accuracy"] == 0.75
    assert found["chance_accuracy"] == 0.5  # class 2 is most frequent in train, and half of test
    assert found["accuracy_negated"] == 1.0
    assert found["accuracy_unseen"] == pytest.approx(2 / 3)  # "A" is in train


def test_what_is_not_known_is_not_measured() -> None:
    plain = [review._replace(negated=None) for review in TEST[1:]]
    splits = {"train": TRAIN, "valid": TEST[:1], "test": plain}
    reviews = from_splits("x", splits, deduplicate=False)
    assert set(evaluate(said(0, 1, 2), reviews, "test")) == {"accuracy", "cross_entropy", "macro_f1", "chance_accuracy"}
    assert "accuracy_unseen" not in evaluate(said(0, 1, 2, 2), reviews, "train")
    assert "accuracy_unseen" not in evaluate(said(0), reviews, "valid")  # all are in train: nothing is left


def test_macro_f1_against_a_count_by_hand() -> None:
    predicted, labels = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 1, 1, 2, 0])
    assert macro_f1(predicted, labels, 3) == pytest.approx((2 / 4 + 2 / 3 + 2 / 3) / 3)
    assert macro_f1(predicted[:2] * 0, labels[:1].repeat(2), 3) == 1.0
