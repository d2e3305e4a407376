"""Of epochs of equal accuracy on valid the one with the lowest cross-entropy is the best, also after a resume."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import porism
from porism.training import loop

VALID = [(0.5, 0.9), (0.9, 0.7), (0.9, 0.6), (0.9, 0.65), (0.8, 0.1), (0.9, 0.5), (0.9, 0.55), (0.9, 0.58)]
"""Accuracy and cross-entropy, epoch by epoch: the sixth is the best; without the loss it would be the second."""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets valid have these numbers, whatever is trained."""
    epochs: Iterator[tuple[float, float]] = iter(VALID)

    def evaluate(*_: Any) -> dict[str, float]:
        accuracy, loss = next(epochs)
        return {"accuracy": accuracy, "cross_entropy": loss}

    monkeypatch.setattr(loop, "evaluate", evaluate)
    # Drawing the page of a run takes longer than these runs.
    monkeypatch.setattr("porism.api.engine.write_report", lambda *_: None)


def trained(out: Path, epochs: int, patience: int) -> porism.Run:
    return porism.train(
        "supervised", "linear", out=out, epochs=epochs, patience=patience, baselines=False, progress=False
    )


def best(run: porism.Run) -> list[int]:
    return [int(row["epoch"]) for row in run.history if row["best"]]


@pytest.mark.usefixtures("scripted")
def test_a_lower_loss_decides_between_equals(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", epochs=len(VALID), patience=100)
    assert best(run) == [1, 2, 3, 6]


@pytest.mark.usefixtures("scripted")
def test_it_does_so_after_a_resume_and_counts_for_patience(tmp_path: Path) -> None:
    trained(tmp_path / "run", epochs=3, patience=2)
    run = porism.load(tmp_path / "run").resume(epochs=len(VALID), patience=3)
    # The fourth and the fifth are no better than the third, the seventh and the eighth no better than the sixth.
    assert best(run) == [1, 2, 3, 6]
    assert len(run.history) == len(VALID)
