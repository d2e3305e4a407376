"""porism report takes the folder of a comparison and writes its page again, byte for byte."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.conftest import Said, Say

import porism
from porism.tasks.supervised.task import Supervised
from porism.training.experiment import Experiment

PAGE = Path("both/report.html")


def flat(text: str) -> str:
    return " ".join(text.split())


def answer(completed: Said) -> tuple[int, Any]:
    return completed.code, json.loads(completed.out)["runs"]


def refusal(completed: Said) -> str:
    assert completed.code == 2
    assert completed.err.count("\n") == 1
    return completed.err


def test_the_folder_of_a_comparison_is_reported(say: Say) -> None:
    # Not in the order of the alphabet.
    compared = say("compare", "supervised", "mlp", "linear", "--out", "both", "--epochs", "1")
    page = PAGE.read_bytes()
    PAGE.unlink()
    again = say("report", "both", "--json")
    assert answer(again) == (0, ["both/mlp", "both/linear"])
    assert PAGE.read_bytes() == page
    assert flat(again.err) in flat(compared.out)

    # Where one run is wanted, those in the folder are named.
    for verb in ("predict", "evaluate"):
        said = refusal(say(verb, "both"))
        assert said == "porism: both is not a run, it holds 2: linear, mlp. Give one of them: both/linear\n"

    # With another folder, the runs of both.
    shutil.copytree("both/linear", "both/other")
    assert answer(say("report", "both", "both/other", "--json")) == (0, ["both/mlp", "both/linear", "both/other"])
    assert Path("report.html").is_file()

    # Without a record (it was stopped, or is of 0.1) runs stand in the order they began.
    record = Path("both/comparison.json")
    recorded = record.read_bytes()
    record.write_text("{}")
    assert f"{record} is damaged" in refusal(say("report", "both"))
    record.unlink()
    shutil.rmtree("both/other")
    assert answer(say("report", "both", "--json")) == (0, ["both/mlp", "both/linear"])

    # Runs that came or went since are named.
    record.write_bytes(recorded)
    Path("both/linear").rename("both/renamed")
    completed = say("report", "both")
    assert completed.code == 0
    assert "note: both/linear is no longer there and is left out" in completed.out
    assert "note: both/renamed is not of this comparison and is left out" in completed.out
    shutil.rmtree("both/mlp")
    assert "none of the runs of the comparison in both is there any more" in refusal(say("report", "both"))


def test_an_experiment_keeps_its_question(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Experiment("rates", "Which rate?", ("linear",), values={"learning_rate": (0.02, 0.01)}, seeds=1)
    monkeypatch.setattr(Supervised, "experiments", {"rates": question})
    assert say("compare", "supervised", "rates", "--out", "both", "--epochs", "1").code == 0
    page = PAGE.read_bytes()
    completed = say("report", "both")
    assert completed.code == 0
    assert "Which rate?" in completed.out
    assert PAGE.read_bytes() == page


def test_a_comparison_of_python_is_reported_with_runs_from_elsewhere(tmp_path: Path, say: Say) -> None:
    X, y = torch.randn(60, 2), torch.arange(60) % 2
    small: dict[str, Any] = {"data": (X, y), "epochs": 1, "progress": False}
    done = porism.train("supervised", "linear", out="alone", **small)
    porism.compare("supervised", [done, "mlp"], out="both", **small)
    page = PAGE.read_bytes()
    assert answer(say("report", "both", "--json")) == (0, ["both/mlp", str(tmp_path / "alone")])
    assert PAGE.read_bytes() == page


def test_a_folder_of_comparisons_names_them(say: Say, tmp_path: Path) -> None:
    assert (
        "has no recipe.toml, and no run lies in it. Give a folder that porism train or porism compare printed."
        in refusal(say("report", "."))
    )
    Path("odd/recipe.toml").mkdir(parents=True)
    for folder in (".", "odd"):
        assert "has no recipe.toml, and no run lies in it." in refusal(say("report", folder))
    assert "does not exist" in refusal(say("report", "nowhere"))
    for name in ("some runs/first/elman", "some runs/second/lstm"):
        Path(name).mkdir(parents=True)
        Path(name, "recipe.toml").touch()
    said = refusal(say("report", "some runs"))
    assert "runs are in first, second. Give one of these: porism report 'some runs/first'" in said
