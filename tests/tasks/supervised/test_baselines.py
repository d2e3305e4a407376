"""A net on a table is held against logistic or linear regression, which reads columns whatever their units are."""

import dataclasses
from typing import Any

import pytest
import torch
from tests import needs

from porism.tasks.supervised import baselines
from porism.tasks.supervised.baselines import LINEAR, LOGISTIC, PENALTIES
from porism.tasks.supervised.recipes import RECIPES
from porism.tasks.supervised.task import Supervised

needs.package("sklearn")


def table(count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """A line tells the classes apart; columns are thousands and thousandths, and one is the same for all."""
    X = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] + X[:, 1] > 0).long()
    return X * torch.tensor([1000.0, 0.001, 0.0]) + 5, y


def loaded(data: Any, **fields: Any) -> Supervised:
    return Supervised.from_data(dataclasses.replace(RECIPES["mlp"], **fields), data)


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


@pytest.mark.parametrize("outputs", [(), (1,), (2, 3)])
def test_linear_regression_stands_beside_the_mean_of_numbers(outputs: tuple[int, ...]) -> None:
    """Of numbers that a line tells but for noise of deviation 0.1, what is left is the noise: 0.01."""
    X, _ = table()
    drawn = torch.Generator().manual_seed(1)
    scaled = (X - X.mean(0)) / X.std(0).clamp(min=1e-9)
    y = torch.tensordot(scaled, torch.randn(3, *outputs, generator=drawn), 1) + 7
    task = loaded((X, y + 0.1 * torch.randn(y.shape, generator=drawn)), loss="mse")
    found = task.baselines()
    assert set(found) == {"mean", LINEAR}
    for split in ("valid", "test"):
        assert 0.005 < found[LINEAR][split]["mse"] < 0.02 < found["mean"][split]["mse"]
    assert list(task.baseline_notes()) == []


def test_linear_regression_solves_its_equations_with_the_penalty_that_is_best_on_valid() -> None:
    """More inputs than examples, and nothing to learn from them: least squares alone is further off."""
    drawn = torch.Generator().manual_seed(2)
    task = loaded((torch.randn(100, 200, generator=drawn), torch.randn(100, generator=drawn)), loss="mse")
    whole = {
        split: tuple(x.double() for x in task.data.splits[split].batch(torch.arange(len(task.data.splits[split]))))
        for split in ("train", "valid", "test")
    }
    X, y = whole["train"]
    mean, deviation = X.mean(0), X.std(0, correction=0)
    x = (X - mean) / deviation

    def error(penalty: float, split: str) -> float:
        equations = x.mT @ x + penalty * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
        weight = torch.linalg.solve(equations, x.mT @ (y - y.mean()))
        inputs, targets = whole[split]
        return float(((inputs - mean) / deviation @ weight + y.mean() - targets).square().mean())

    best = min(PENALTIES, key=lambda penalty: error(penalty, "valid"))
    assert best > PENALTIES[0]
    assert task.baselines()[LINEAR]["test"]["mse"] == pytest.approx(error(best, "test"), rel=1e-6)
