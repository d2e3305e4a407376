import json
from pathlib import Path

import pytest

from porism.errors import RunError
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.train.recipe import from_fields
from porism.train.run import Facts, Run

FACTS = Facts(
    task="language",
    recipe="elman",
    seed=3,
    device="cpu",
    precision="fp32",
    threads=1,
    fingerprint="ab",
    source="a b.txt",
)


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", FACTS, RECIPES["elman"])
    found = Run.open(tmp_path / "run")
    assert found.facts == FACTS
    assert from_fields(LanguageRecipe, found.fields) == RECIPES["elman"]
    assert found.metrics() is None


def test_the_command_repeats_the_run() -> None:
    words = ["porism", "train", "language", "elman", "--data", "a b.txt", "--device", "cpu", "--seed", "3"]
    assert FACTS.command() == words


def test_a_torn_event_is_cut_off_before_the_next(tmp_path: Path) -> None:
    run = Run.create(tmp_path, FACTS, RECIPES["elman"])
    run.append("start", command="x")
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "epo')
    run.append("resume", epoch=1, step=0)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["start", "resume"]


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    Run.create(tmp_path, FACTS, RECIPES["elman"])
    with pytest.raises(RunError, match=f"{tmp_path} already holds a run. Go on with it by --resume"):
        Run.create(tmp_path, FACTS, RECIPES["elman"])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match="is not a run: it has no recipe.toml. Give the folder that porism train printed"
    ):
        Run.open(tmp_path)
    with pytest.raises(RunError, match="There is no such folder"):
        Run.open(tmp_path / "nothing")
    (tmp_path / "recipe.toml").write_text("task = 3\n[fields]\n")
    with pytest.raises(RunError, match="recipe.toml is not a recipe that porism wrote"):
        Run.open(tmp_path)
