"""porism.compare: several models from the same seeds on the same data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.api.conftest import Data, best_bits
from torch import nn

import porism
from porism.errors import PorismError, RecipeError, RunError
from porism.runs.recipe import with_fields
from porism.tasks import find
from porism.tasks.supervised.recipes import RECIPES


def small(info: Any) -> nn.Module:
    return nn.Linear(info.num_features, info.num_classes)


def large(info: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(info.num_features, 16), nn.ReLU(), nn.Linear(16, info.num_classes))


MODELS: dict[str, Any] = {
    "mine": small,
    "wide one": large,
    "ours": replace(RECIPES["linear"], standardize=False),
}
OPTIONS: dict[str, Any] = {"loss": "cross_entropy", "epochs": 2, "threads": 1, "device": "cpu", "learning_rate": 0.02}


@pytest.fixture(scope="module")
def both(points: Data, tmp_path_factory: pytest.TempPathFactory) -> porism.Comparison:
    return porism.compare("supervised", MODELS, data=points, seeds=2, out=tmp_path_factory.mktemp("c") / "c", **OPTIONS)


def test_every_model_has_a_run_of_every_seed(both: porism.Comparison) -> None:
    folders = {run.path.name for run in both.runs}
    assert folders == {f"{name}-seed-{seed}" for name in ("mine", "wide-one", "ours") for seed in (1, 2)}
    records = both.to_records()
    assert {(row["model"], row["parameters"]) for row in records} == {("mine", 15), ("wide-one", 131), ("ours", 15)}
    assert all(
        row["test_accuracy"] == run.metrics["test"]["accuracy"] for row, run in zip(records, both.runs, strict=True)
    )
    assert (both.path / "report.html").is_file()


def test_a_model_of_ours_and_the_same_of_yours_begin_alike(both: porism.Comparison) -> None:
    """One linear layer is drawn from the seed either way, and trained by the same recipe."""
    mine, ours = (next(run for run in both.runs if run.path.name == f"{name}-seed-1") for name in ("mine", "ours"))
    assert mine.metrics == ours.metrics


def test_two_seeds_decide_nothing(both: porism.Comparison) -> None:
    assert both.best is None
    assert len(both.differences) == 3
    assert not any(found.decided for found in both.differences)
    assert all(found.low is not None and found.low <= found.lead for found in both.differences)


def test_it_shows_itself(both: porism.Comparison) -> None:
    assert repr(both) == "Comparison of mine and ours and wide-one by test accuracy: 6 runs"
    assert "wide-one" in str(both)
    assert both.table().row_count == 3
    assert "<table>" in both._repr_html_()


def test_a_decided_comparison_has_a_best(points: Data, tmp_path: Path) -> None:
    def untrained(info: Any) -> nn.Module:
        # It learns a bias alone.
        made = nn.Linear(info.num_features, info.num_classes)
        nn.init.zeros_(made.weight)
        made.weight.requires_grad_(False)
        return made

    given = {**OPTIONS, "epochs": 4, "learning_rate": 0.2}
    found = porism.compare({"mine": small, "bias": untrained}, data=points, seeds=5, out=tmp_path / "c", **given)
    assert found.best is not None
    assert found.best.recipe.name == "mine"
    (only,) = found.differences
    assert (only.first, only.second, only.decided) == ("mine", "bias", True)


def test_what_is_done_is_kept(both: porism.Comparison, points: Data) -> None:
    before = {run.path: (run.path / "metrics.json").stat().st_mtime_ns for run in both.runs}
    again = porism.compare("supervised", MODELS, data=points, seeds=2, out=both.path, resume=True, **OPTIONS)
    assert {run.path: (run.path / "metrics.json").stat().st_mtime_ns for run in again.runs} == before
    with pytest.raises(RunError, match="already holds a run. Add resume=True"):
        porism.compare("supervised", MODELS, data=points, seeds=2, out=both.path, **OPTIONS)


def test_runs_are_taken_as_they_are_and_seeds_named(both: porism.Comparison, points: Data, tmp_path: Path) -> None:
    done = both.runs[0]
    models = [done, MODELS["ours"]]
    found = porism.compare("supervised", models, data=points, seeds=[2], out=tmp_path / "c", **OPTIONS)
    assert found.runs[-1] is done
    ours = next(run for run in both.runs if run.path.name == "ours-seed-2")
    assert best_bits(found.runs[0].path) == best_bits(ours.path)


@pytest.mark.parametrize("seeds", [np.int64(2), np.array([1, 2]), (1, np.uint8(2)), range(1, 3)])
def test_seeds_are_whole_numbers_of_any_kind(seeds: Any, points: Data, tmp_path: Path) -> None:
    found = porism.compare("supervised", ["linear"], data=points, seeds=seeds, out=tmp_path / "c", **OPTIONS)
    assert [run.path.name for run in found.runs] == ["linear-seed-1", "linear-seed-2"]


@pytest.mark.parametrize("path", [3, None])
def test_a_path_that_is_none_is_refused(path: Any, points: Data) -> None:
    with pytest.raises(RecipeError, match="path is a .*, expected the path of a folder"):
        porism.load(path)


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("which models? Choose from mlp, linear", {"models": []}),
    "unknown": ("supervised has no recipe 'linera'. Did you mean linear?", {"models": ["linera"]}),
    "drawn": (
        "mine is a module, whose parameters are drawn already",
        {"models": {"mine": nn.Linear(4, 3)}, "seeds": 2},
    ),
    "nameless": ("Give modules by name", {"models": [nn.Linear(4, 3)]}),
    "twice": ("two have the same name", {"models": ["linear", "linear"]}),
    "seeds": ("expected a number, or some that differ", {"models": ["linear"], "seeds": [1, 1]}),
    "no seeds": ("seeds takes a whole number from 1", {"models": ["linear"], "seeds": 0}),
    "seeds of 1.5": ("or seeds such as [1, 2, 5], got 1.5", {"models": ["linear"], "seeds": 1.5}),
    "seeds of True": ("or seeds such as [1, 2, 5], got True", {"models": ["linear"], "seeds": True}),
    "seeds of text": ("or seeds such as [1, 2, 5], got '12'", {"models": ["linear"], "seeds": "12"}),
    "seeds in a list": ("or seeds such as [1, 2, 5], got [1, 2.5]", {"models": ["linear"], "seeds": [1, 2.5]}),
    "first seed": ("seed takes a whole number from 0 to 4294967295, got 1.5", {"models": ["linear"], "seed": 1.5}),
    "workers": ("workers takes a whole number from 1 to 1024, got True", {"models": ["linear"], "workers": True}),
    "budget": ("a budget is 'equal', None, or a dict of one of epochs", {"models": ["linear"], "budget": 3}),
    "budget of True": ("budget epochs is True, expected a number", {"models": ["linear"], "budget": {"epochs": True}}),
    "callbacks": ("callbacks is 3, expected a list", {"models": ["linear"], "callbacks": 3}),
    "no models": ("models is a int, expected names, recipes", {"models": 3}),
    "name of 1": ("1 is no name of a model", {"models": {1: "linear"}}),
    "empty name": ("'' is no name of a model", {"models": {"": "linear"}}),
    "dots": ("'..' is no name of a model", {"models": {"..": "linear"}}),
    "slash": ("'a/b' is no name of a model", {"models": {"a/b": "linear"}}),
    "field": ("has no field 'epoch'", {"models": ["linear"], "epoch": 1}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_compared_is_refused(wrong: str, points: Data, tmp_path: Path) -> None:
    words, given = WRONG[wrong]
    with pytest.raises(PorismError) as raised:
        porism.compare(**{"task": "supervised", "data": points, "out": tmp_path / "c", **given})
    assert words in str(raised.value)
    assert not (tmp_path / "c").exists()


def test_every_model_may_train_as_long(points: Data, tmp_path: Path) -> None:
    """Recipes of 3 and 5 epochs: by default both have 5."""
    models = [with_fields(RECIPES[name], {"epochs": epochs}) for name, epochs in (("linear", 3), ("mlp", 5))]
    given: dict[str, Any] = {"data": points, "threads": 1, "device": "cpu", "patience": 9}
    budgets: dict[str, Any] = {"equal": "equal", "own": None, "examples": {"examples": 170}}
    found = {
        name: porism.compare("supervised", models, budget=budget, out=tmp_path / name, **given)
        for name, budget in budgets.items()
    }
    epochs = {name: [run.recipe.epochs for run in one.runs] for name, one in found.items()}
    # 84 of the 120 points train.
    assert epochs == {"equal": [5, 5], "own": [3, 5], "examples": [2, 2]}
    with pytest.raises(RecipeError, match="a budget is one of epochs, seconds, examples, got hours"):
        porism.compare("supervised", models, budget={"hours": 1}, out=tmp_path / "wrong", **given)


def test_a_run_that_diverges_is_an_outcome(points: Data, tmp_path: Path) -> None:
    def explode(output: Any, target: Any) -> Any:
        return output.sum() * float("inf") if output.shape[1] == 3 else output.square().mean()

    models = {"stays": lambda info: nn.Linear(4, 2), "explodes": lambda info: nn.Linear(4, 3)}
    found = porism.compare(models, data=points, out=tmp_path / "c", **{**OPTIONS, "loss": explode})
    assert {run.recipe.name: run.status for run in found.runs} == {"stays": "finished", "explodes": "stopped"}
    assert found.best is None


def test_models_are_given_once(points: Data) -> None:
    with pytest.raises(RecipeError, match="models are given twice"):
        porism.compare({"mine": small}, ["linear"], data=points)


NAMED = {said: with_fields(find("language").recipes["elman"], {"precision": said}) for said in ("fp32", "bf16")}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["elman", "lstm"], {"bf16"}),
        (["lstm", "attention"], {"fp32"}),
        ([NAMED["fp32"], "lstm"], {"fp32"}),
        ([NAMED["bf16"], "lstm"], {"bf16"}),
        ([NAMED["bf16"], "lstm", "attention"], {"bf16", "fp32"}),
    ],
)
def test_the_machine_chooses_one_precision_for_all(
    names: list[Any], expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("porism.training.device.cpu_has_amx", lambda: True)
    text = tmp_path / "text.txt"
    text.write_text("a bird in the hand is worth two in the bush\n" * 60)
    small: dict[str, Any] = {"embedding_dim": 8, "hidden_size": 8, "batch_size": 4, "seq_len": 5, "epochs": 1}
    found = porism.compare(
        "language", names, data=text, out=tmp_path / "both", threads=1, device="cpu", progress=False, **small
    )
    of_machine = {run.recipe.precision for run, name in zip(found.runs, names, strict=True) if isinstance(name, str)}
    assert len(of_machine) == 1
    assert {run.recipe.precision for run in found.runs} == expected
    differ = "Beside the model they differ in precision" in (tmp_path / "both" / "report.html").read_text()
    assert differ == (len(expected) > 1)
