"""Large checkpoints of short epochs: not each epoch is saved, and nothing but time depends on which are."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.tiny_runs import Listener, Stop, begin, resume, same_bits

from porism.errors import DivergedError, Interrupted
from porism.runs import checkpoint
from porism.runs.record import read_run
from porism.training import loop, session
from porism.training.loop import Training


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if saving took so long that after the first epoch no other could be saved."""
    monkeypatch.setattr(loop, "SMALL", 0)
    monkeypatch.setattr(loop, "SAVING_SHARE", 0.0)


def saved_epochs(run: Path) -> tuple[int, int]:
    """Of which epoch the best is, and in which epoch a resume would begin."""
    return checkpoint.read(run / "best").state["epoch"], checkpoint.read(run / "last").state["position"]["epoch"]


def told(run: Path) -> list[tuple[int, float | None]]:
    return [(epoch.epoch, epoch.valid["perplexity"]) for epoch in read_run(run).epochs]


@pytest.mark.usefixtures("rarely")
def test_the_end_is_saved_and_the_best_is_that_of_its_epoch(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    class Watch(Listener):
        reads_checkpoints = True

        def epoch(self, event: Any) -> None:
            seen.append(saved_epochs(tmp_path / "run"))

    session.complete(begin(tmp_path / "run", tiny_text), Watch())
    assert seen == [(1, 2), (1, 2), (2, 3)]
    assert same_bits(tmp_path / "run", straight)


@pytest.mark.usefixtures("rarely")
def test_a_kill_costs_the_epochs_that_were_not_saved(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stop):
        session.complete(begin(run, tiny_text), Listener(epochs=2))
    assert saved_epochs(run) == (1, 2)
    session.complete(resume(run))
    assert same_bits(run, straight)
    assert told(run) == told(straight)


@pytest.mark.usefixtures("rarely")
def test_ctrl_c_saves_the_best_of_an_epoch_that_was_not(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    class Interrupter(Listener):
        def epoch(self, event: Any) -> None:
            if event["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGINT)

    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        session.complete(begin(run, tiny_text), Interrupter())
    assert saved_epochs(run) == (2, 3)
    session.complete(resume(run))
    assert same_bits(run, straight)


@pytest.mark.usefixtures("rarely")
def test_a_training_that_diverges_leaves_its_best(tiny_text: str, tmp_path: Path) -> None:
    class Breaker(Listener):
        def __init__(self, training: Training) -> None:
            super().__init__()
            self.training = training

        def epoch(self, event: Any) -> None:
            if event["epoch"] == 2:
                with torch.no_grad():
                    next(self.training.model.parameters()).fill_(torch.nan)

    run = tmp_path / "run"
    training = begin(run, tiny_text)
    with pytest.raises(DivergedError):
        session.complete(training, Breaker(training))
    assert saved_epochs(run) == (2, 2)
    assert resume(run).position.best_epoch == 1
