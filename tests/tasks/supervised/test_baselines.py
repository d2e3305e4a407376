"""A net on a user's table is held against logistic regression, which reads columns whatever their units are."""

from typing import Any

import pytest
import torch

from porism.tasks.supervised import baselines
from porism.tasks.supervised.baselines import LOGISTIC
from porism.tasks.supervised.recipes import RECIPES
from porism.tasks.supervised.task import Supervised

pytest.importorskip("sklearn")


def table(count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """A line tells the classes apart; columns are thousands and thousandths, and one is the same for all."""
    X = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] + X[:, 1] > 0).long()
    return X * torch.tensor([1000.0, 0.001, 0.0]) + 5, y


def loaded(data: Any) -> Supervised:
    return Supervised.from_data(RECIPES["mlp"], data)


def test_logistic_regression_stands_beside_the_majority_whatever_the_units_are() -> None:
    found = loaded(table()).baselines()
    assert set(found) == {"majority class", LOGISTIC}
    for split in ("valid", "test"):
        assert found[LOGISTIC][split]["accuracy"] > 0.9 > found["majority class"][split]["accuracy"]
    assert loaded(table()).baselines() == found


def test_a_part_of_many_examples_is_fitted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    task = loaded(table())
    assert list(task.baseline_notes()) == []
    monkeypatch.setattr(baselines, "MOST_NUMBERS", 150)
    assert list(task.baseline_notes()) == [
        f"Logistic regression is fitted on 50 of {len(task.data.splits['train'])} examples."
    ]
    assert task.baselines()[LOGISTIC]["test"]["accuracy"] > 0.8


def test_inputs_that_are_no_numbers_in_memory_have_the_majority_alone() -> None:
    X, y = table()
    for data in ((X > 0, y), list(zip(X, y, strict=True))):
        task = loaded(data)
        assert "majority class" in task.baselines()
        assert LOGISTIC not in task.baselines()
        assert list(task.baseline_notes()) == []


def test_without_scikit_learn_it_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["Without logistic regression: scikit-learn is not installed"]
    monkeypatch.setattr(baselines, "sklearn_missing", lambda models: told)
    task = loaded(table())
    assert set(task.baselines()) == {"majority class"}
    assert list(task.baseline_notes()) == told


def test_inputs_that_are_not_finite_leave_logistic_regression_out() -> None:
    X, y = table()
    task = loaded((X, y))
    X[7, 1] = float("nan")
    assert set(task.baselines()) == {"majority class"}
    assert list(task.baseline_notes()) == ["Logistic regression is left out: some inputs are not finite."]
