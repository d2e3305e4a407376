"""Inputs of different units: brought to one scale on train, kept with the model; one's own module gets them raw."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import porism
from porism.tasks.supervised.data import mean_and_deviation
from porism.tasks.supervised.task import Supervised

OPTIONS: dict[str, Any] = {"epochs": 12, "device": "cpu", "threads": 1, "baselines": False}


def columns(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Classes that the second column tells, which is a ten-thousandth of the first; the third is the same for all."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(300, 3, generator=draw) * torch.tensor([100.0, 0.01, 0.0]) + torch.tensor([1000.0, 0.5, 7.0])
    return x, (x[:, 1] > 0.5).long()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("recipe", ["mlp", "linear"])
def test_columns_of_different_units_are_learned_and_predicted(recipe: str, tmp_path: Path) -> None:
    x, y = columns()
    run = porism.train("supervised", recipe, data=(x, y), out=tmp_path / "run", **OPTIONS)
    assert run.metrics["test"]["accuracy"] > 0.9
    loaded = porism.load(tmp_path / "run")
    assert torch.equal(loaded.model(x), run.model(x))
    plain = porism.train("supervised", recipe, data=(x, y), out=tmp_path / "plain", standardize=False, **OPTIONS)
    assert plain.metrics["test"]["accuracy"] < 0.8


def test_the_statistics_are_those_of_train_alone() -> None:
    task = Supervised.from_data(Supervised.recipes["mlp"], columns())
    model: Any = task.build()
    train, _ = task.data.splits["train"].batch(torch.arange(len(task.data.splits["train"])))
    assert len(train) < 300
    assert torch.allclose(model.standardize.mean.double(), train.double().mean(0), rtol=1e-6)
    assert torch.allclose(model.standardize.deviation[:2].double(), train.double().std(0, correction=0)[:2], rtol=1e-6)
    # Nothing is divided by a deviation of 0.
    assert model.standardize.deviation[2] == 1
    assert model.standardize(train).isfinite().all()


def test_a_dataset_that_is_read_one_by_one_has_the_same() -> None:
    x, y = columns()
    tensors = Supervised.from_data(Supervised.recipes["mlp"], {"train": (x, y), "valid": (x[:9], y[:9])})
    dataset = Supervised.from_data(
        Supervised.recipes["mlp"], {"train": TensorDataset(x, y), "valid": TensorDataset(x[:9], y[:9])}
    )
    one, other = (mean_and_deviation(task.data.splits["train"]) for task in (tensors, dataset))
    assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(one, other, strict=True))


def test_a_module_of_ones_own_gets_inputs_as_they_are(tmp_path: Path) -> None:
    seen: list[float] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            if self.training and type(x) is Tensor:
                seen.append(float(x[:, 2].detach().max()))
            logits: Tensor = self.linear(x)
            return logits

    x, y = columns()
    porism.train(Net(), data=(x, y), loss="cross_entropy", out=tmp_path / "run", **{**OPTIONS, "epochs": 1})
    # The cost is derived on other numbers.
    assert seen.count(7.0) > 5
