"""`porism train --resume` goes on with the run as it is or for longer, and refuses whatever else is requested."""

import hashlib
import json
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import TINY, Say

from porism.cli import main

HELD = [*TINY, "--set=epochs=2", "--set=lr_scheduler=constant", "--seed=3", "--threads=1", "--device=cpu"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and a run on it that has finished."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    train = ["train", "language", "elman", "--data", str(folder / "text.txt"), "--out", str(folder / "run"), *HELD]
    assert main(train) == 0
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of that run, in the folder where commands are run."""
    shutil.copytree(made / "run", tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "run"


def content(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def result_of(out: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return result


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("graphs", "task is language, requested graphs"),
        ("graphs --set hidden_size=3", "task is language, requested graphs"),
        ("language lstm", "recipe is elman, requested lstm"),
        ("nonsense", "task is language, requested nonsense"),
        ("--seed 7", "seed is 3, requested 7"),
        ("--threads 2", "threads is 1, requested 2"),
        ("--data nonexistent", "text.txt, requested nonexistent"),
        ("--data manual", "text.txt, requested manual"),
        ("--data None", "text.txt, requested None"),
        ("--out elsewhere", "folder is run, requested elsewhere"),
        ("--set hidden_size=9", "hidden_size is 8, requested 9"),
        ("--set max_grad_norm=1", "max_grad_norm is none, requested 1.0"),
        ("--set epochs=50 --set learning_rate=0.5", "learning_rate is "),
        ("--set epochs=50 --seed 7 --set batch_size=2", "seed is 3, requested 7; batch_size is 4, requested 2"),
        ("--set nofield=50", "recipe elman has no field 'nofield'"),
        ("--set epochs", "--set takes field=value, got 'epochs'"),
        ("--set epochs=0", "epochs=0 cannot be"),
        ("--set epochs=inf", "epochs=inf cannot be"),
        ("--set epochs=1", "epochs=1 cannot be: the run is in epoch 2 already"),
        ("--set patience=1", "patience=1 cannot be: the run was trained with 3"),
        ("--device tpu", "there is no device 'tpu'"),
        ("--checkpoint-every nan", "--checkpoint-every takes seconds from 0 on, got nan"),
        ("--recipes", "--recipes lists what can be trained"),
        ("language run/metrics.json --set epochs=3", "recipe is elman, requested run/metrics.json"),
    ],
)
def test_whatever_else_is_requested_is_refused(say: Say, run: Path, words: str, message: str) -> None:
    before = content(run)
    completed = say("train", "--resume", "run", words.split())
    assert completed.code == 2
    assert message in completed.err
    assert completed.err.startswith("porism: ")
    assert completed.err.count("\n") == 1
    assert content(run) == before
    assert list(Path("elsewhere").iterdir()) == []


def test_a_recipe_file_that_is_another_is_refused(say: Say, run: Path) -> None:
    other = Path("other.toml")
    other.write_text((run / "recipe.toml").read_text().replace("hidden_size = 8", "hidden_size = 9"))
    completed = say("train", "language", "other.toml", "--resume", "run")
    assert completed.code == 2
    assert "hidden_size is 8, requested 9" in completed.err


def test_what_the_run_holds_may_be_said_again(say: Say, run: Path, made: Path) -> None:
    same = ["language", "elman", "--data", str(made / "text.txt"), "--out", "./run", "--checkpoint-every", "5", *HELD]
    completed = say("train", "--resume", "run", same)
    assert (completed.code, completed.err) == (0, "")
    assert "finished: all epochs done\n" in completed.out
    assert say("train", "language", "run/recipe.toml", "--resume", "run").code == 0
    assert "->" not in completed.out


def test_more_epochs_are_trained_and_said(say: Say, run: Path) -> None:
    short = json.loads((run / "metrics.json").read_text())
    completed = say("train", "--resume", "run", "--set", "epochs=4", "--json")
    assert completed.code == 0
    assert "epochs 2 -> 4\n" in completed.err
    assert "finished:" not in completed.err
    result = result_of(completed.out)
    assert (short["epochs"], result["epochs"]) == (2, 4)
    assert tomllib.loads((run / "recipe.toml").read_text())["fields"]["epochs"] == 4
    words = shlex.split(result["command"])
    assert words[0] == "porism"
    repeated = result_of(say(words[1:], "--out", "repeated", "--json").out)
    assert repeated["metrics"] == result["metrics"]
    assert repeated["command"] == result["command"]
    assert "finished: all epochs done\n" in say("train", "--resume", "run").out


def test_a_run_from_a_recipe_file_is_repeated_by_its_command(say: Say, run: Path, made: Path) -> None:
    train = [
        "train",
        "language",
        "run/recipe.toml",
        "--set=hidden_size=6",
        "--data",
        str(made / "text.txt"),
        "--out",
        "two",
    ]
    result = result_of(say(train, "--device=cpu", "--json").out)
    repeated = result_of(say(shlex.split(result["command"])[1:], "--out", "three", "--json").out)
    assert (repeated["metrics"], repeated["parameters"]) == (result["metrics"], result["parameters"])
