"""The trainings of a comparison, by whichever door it was requested: planned, kept and refused alike."""

from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Data
from torch import nn

import porism
from porism.api.comparing import Plan
from porism.api.recipes import Settings
from porism.api.train import Request
from porism.cli.compare import CompareCommand
from porism.errors import RecipeError, RunError
from porism.tasks.supervised.task import Supervised
from porism.training.experiment import Experiment, ExperimentRun

FIXED: dict[str, Any] = {"threads": 1, "device": "cpu", "epochs": 1}


def request_of(trial: ExperimentRun) -> Request:
    fields = dict(text.split("=") for text in trial.assignments)
    return Request.with_settings(
        Settings.of("supervised", trial.recipe, None, None, None, fields), None, trial.seed, "cpu", 1
    )


def test_both_doors_plan_the_same_folders_seeds_and_recipes() -> None:
    here = Plan.of(["mlp", "linear"], request_of, seeds=2)
    there = CompareCommand(task="supervised", recipes=["mlp", "linear"], seeds="2", device="cpu", threads=1).plan(
        Supervised
    )
    seen = [[(one.folder, one.request.seed, one.request.recipe) for one in plan.trainings] for plan in (here, there)]
    assert seen[0] == seen[1]
    assert [folder for folder, _, _ in seen[0]] == ["mlp-seed-1", "linear-seed-1", "mlp-seed-2", "linear-seed-2"]
    assert not here.own_pages
    assert Plan.of(["mlp"], request_of).own_pages


def test_an_experiment_takes_seeds_by_number_or_by_name() -> None:
    sizes = Experiment("sizes", "How wide?", ("mlp",), values={"hidden_size": (4, 8)}, seeds=2)
    counted = Plan.of((), request_of, experiment=sizes, first_seed=3)
    assert [one.folder for one in counted.trainings] == [
        f"mlp-hidden_size={size}-seed-{seed}" for seed in (3, 4) for size in (4, 8)
    ]
    named = Plan.of((), request_of, experiment=sizes, seeds=[7])
    assert [one.request.seed for one in named.trainings] == [7, 7]


@pytest.fixture(scope="module")
def done(points: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("done") / "c"
    porism.compare("supervised", ["linear"], data=points, out=out, **FIXED)
    return out


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"epochs": 2}, "epochs is 1, requested 2"),
        ({"seed": 2}, "seed is 1, requested 2"),
        ({"learning_rate": 0.5}, "learning_rate is 0.01, requested 0.5"),
        ({"threads": 2}, "threads is 1, requested 2"),
    ],
)
def test_another_run_in_the_folder_is_refused_before_anything_is_trained(
    done: Path, points: Data, other: dict[str, Any], words: str
) -> None:
    given = {**FIXED, **other}
    with pytest.raises(RunError) as raised:
        porism.compare("supervised", ["mlp", "linear"], data=points, out=done, resume=True, **given)
    assert words in str(raised.value)
    assert "Choose another out" in str(raised.value)
    assert not (done / "mlp").exists()


def test_other_data_in_memory_is_refused(done: Path, points: Data) -> None:
    X, y = points
    with pytest.raises(RunError, match="the sha256 of its data begins"):
        porism.compare("supervised", ["linear"], data=(X + 1, y), out=done, resume=True, **FIXED)


def test_a_run_that_diverged_is_kept_as_it_is(points: Data, tmp_path: Path) -> None:
    def explode(output: Any, target: Any) -> Any:
        return output.sum() * float("inf") if output.shape[1] == 3 else output.square().mean()

    models: dict[str, Any] = {
        "stays": lambda info: nn.Linear(4, 2),
        "explodes": lambda info: nn.Linear(4, 3),
    }
    given = {**FIXED, "data": points, "loss": explode, "out": tmp_path / "c"}
    porism.compare(models, **given)
    before = (tmp_path / "c/explodes/events.jsonl").read_bytes()
    again = porism.compare(models, resume=True, **given)
    assert [run.status for run in again.runs] == ["finished", "stopped"]
    assert (tmp_path / "c/explodes/events.jsonl").read_bytes() == before


def test_a_field_that_an_experiment_tries_cannot_be_set(points: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Experiment("sizes", "How wide?", ("mlp",), values={"hidden_size": (4, 8)})
    monkeypatch.setattr(Supervised, "experiments", {"sizes": sizes})
    with pytest.raises(RecipeError, match=r"sizes tries hidden_size itself \(4, 8\). Leave hidden_size out."):
        porism.compare("supervised", "sizes", data=points, hidden_size=3)
