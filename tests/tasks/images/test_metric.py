"""The metrics against sums that can be done by hand."""

import math

import pytest
import torch

from porism.tasks.images.metric import auc, classification


@pytest.mark.parametrize("classes", [2, 5])
def test_the_area_is_the_share_of_pairs_in_order(classes: int) -> None:
    draw = torch.Generator().manual_seed(classes)
    labels = torch.randint(0, classes, (63,), generator=draw)
    # Few different scores, so that many are equal.
    scores = torch.randint(0, 7, (63, classes), generator=draw) / 7
    areas = []
    for label in range(classes):
        ours, others = scores[labels == label, label], scores[labels != label, label]
        pairs = ours[:, None] - others
        areas.append(((pairs > 0).double() + (pairs == 0).double() / 2).mean().item())
    assert auc(scores, labels) == pytest.approx(sum(areas) / classes, abs=1e-12)


def test_a_class_that_is_not_there_has_no_area() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.7, 0.0]])
    assert auc(scores, torch.tensor([0, 1, 1])) == 1.0
    assert auc(scores, torch.tensor([1, 1, 1])) == 0.5


def test_accuracy_and_cross_entropy() -> None:
    logits = torch.tensor([[math.log(3), 0.0], [0.0, 0.0], [0.0, math.log(3)], [math.log(3), 0.0]])
    found = classification(logits, torch.tensor([0, 0, 1, 1]))
    assert found["accuracy"] == 0.75
    assert found["cross_entropy"] == pytest.approx((2 * math.log(4 / 3) + math.log(2) + math.log(4)) / 4)
