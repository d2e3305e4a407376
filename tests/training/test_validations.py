"""Recipes that validate after several epochs: what events and results number, and a last stretch that is shorter."""

import dataclasses
import json
from pathlib import Path

import pytest

from porism.errors import RecipeError
from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs
from porism.training import session
from porism.training.lengthen import lengthen
from porism.training.request import TrainingRequest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    recipe = override(RECIPES["gcn"], ["epochs=25", "check_val_every_n_epoch=10"])
    result = session.complete(session.begin(TrainingRequest(Graphs, recipe, device="cpu", threads=1), tmp_path / "run"))
    assert result["epochs"] == 25
    return tmp_path / "run"


def test_epochs_are_passes_and_the_last_stretch_is_what_is_left(run: Path) -> None:
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [(event["epoch"], event["step"]) for event in epochs] == [(10, 10), (20, 10), (25, 5)]
    assert all(event["check_val_every_n_epoch"] == 10 for event in epochs)
    assert RunFolder.open(run).metrics() is not None


def test_it_is_not_lengthened_since_a_new_run_would_not_validate_there(run: Path) -> None:
    training = session.reopen(Graphs, RunFolder.open(run))
    with pytest.raises(RecipeError, match="epochs=40 cannot be: the run is validated after epoch 25"):
        lengthen(training, dataclasses.replace(training.task.recipe, epochs=40))
    training.run.unlock()
    assert RunFolder.open(run).metrics() is not None


def test_patience_counts_validations(tmp_path: Path) -> None:
    settings = ["epochs=400", "check_val_every_n_epoch=5", "patience=2", "learning_rate=1e-9"]
    recipe = override(RECIPES["gcn"], settings)
    result = session.complete(session.begin(TrainingRequest(Graphs, recipe, device="cpu", threads=1), tmp_path / "run"))
    # A model that hardly learns is best at once, and two validations later that is that.
    assert (result["best_epoch"], result["epochs"]) == (5, 15)
