"""porism recipes and porism runs list what there is, without torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import TINY, Say

from porism.cli import main
from porism.runs.lock import Lock
from porism.tasks import TASKS, choices


def last_line(out: str) -> Any:
    return json.loads(out.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one recipe and one that was damaged."""
    folder = tmp_path_factory.mktemp("lists")
    text = folder / "text.txt"
    text.write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    for seed in ("1", "2"):
        out = str(folder / "runs" / f"seed-{seed}")
        assert main(["train", "language", "--data", str(text), "--out", out, "--seed", seed, *TINY]) == 0
    damaged = folder / "runs" / "inner" / "damaged"
    damaged.mkdir(parents=True)
    (damaged / "recipe.toml").write_text("nonsense")
    return folder


def test_all_recipes_are_listed(say: Say) -> None:
    known = last_line(say("recipes", "--json").out)
    assert {row["task"] for row in known["recipes"]} == set(TASKS)
    assert {row["name"] for row in known["questions"]} >= {"pooling-question", "steps-question"}
    of_task = say("recipes", "language").out
    assert "elman-best" in of_task
    assert "porism compare language steps-question" in of_task
    assert last_line(say("train", "language", "--recipes", "--json").out) == last_line(
        say("recipes", "language", "--json").out
    )


def test_a_recipe_shows_fields_values_and_meanings(say: Say) -> None:
    shown = last_line(say("recipes", "language", "attention", "--json").out)
    assert (shown["fields"]["seq_len"], shown["fields"]["max_grad_norm"]) == (40, None)
    assert shown["meanings"]["seq_len"] == "Tokens of a window, through which the gradient runs back."
    assert set(shown["fields"]) == set(shown["meanings"])
    assert "Tokens of a window" in " ".join(say("recipes", "language", "attention").out.split())
    assert say("recipes", "language", "atention").err == (
        "porism: language has no recipe 'atention'. Did you mean attention?\n"
    )
    question = next(iter(choices("language").experiments))
    assert f"porism compare language {question}" in say("recipes", "language", question).out


def test_runs_are_listed_with_what_came_of_them(say: Say, folder: Path) -> None:
    rows = last_line(say("runs", folder / "runs", "--json", "--sort", "seed").out)["runs"]
    assert [(row["seed"], row["status"]) for row in rows] == [(1, "finished"), (2, "finished"), (None, "damaged")]
    assert (rows[0]["task"], rows[0]["recipe"], rows[0]["metric"], rows[0]["split"]) == (
        ("language", "elman", "perplexity", "test")
    )
    assert "recipe.toml is not a recipe that porism wrote" in rows[2]["why"]
    by_metric = last_line(say("runs", folder / "runs", "--json", "--sort", "metric").out)["runs"]
    assert by_metric[0]["value"] == min(row["value"] for row in rows[:2])
    assert [row["seed"] for row in by_metric[2:]] == [None]
    assert last_line(say("runs", folder / "runs", "--task", "words", "--json").out) == {"runs": []}
    assert "test perplexity" in " ".join(say("runs", folder / "runs").out.split())


def test_a_run_on_its_way_is_running_or_stopped(say: Say, folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    for name in ("recipe.toml", "events.jsonl"):
        (run / name).write_bytes((folder / "runs" / "seed-1" / name).read_bytes())
    assert last_line(say("runs", "--json").out)["runs"][0]["status"] == "stopped"
    lock = Lock(run)
    assert last_line(say("runs", "--json").out)["runs"][0]["status"] == "running"
    lock.release()


def test_where_there_are_no_runs_that_is_said(say: Say, tmp_path: Path) -> None:
    assert "no runs in runs. Train one: porism train language" in say("runs").out
    assert say("runs", "nowhere").err == (
        "porism: nowhere is no folder. Give one that holds runs, or leave it out for runs/.\n"
    )
    assert "Did you mean words?" in say("runs", "--task", "word").err


def test_no_list_imports_torch(folder: Path) -> None:
    code = (
        "import sys, io; from porism.cli import main; sys.stdout = io.StringIO()\n"
        f"for words in (['recipes'], ['recipes', 'speech', 'joint'], ['runs', {str(folder / 'runs')!r}],"
        " ['--complete', '2', 'porism', 'train'], ['data', 'list'], ['data', 'path', 'mnist'], ['--help'],"
        " ['train', '--help'], ['data', '--help']): assert main(words) == 0\n"
        "sys.exit(', '.join({'torch', 'sympy'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("columns", "widest"), [("70", 70), ("100", 100), ("", 160)])
def test_a_table_is_as_wide_as_columns_says(
    say: Say, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = say("recipes", "language", "elman").out
    assert max(map(len, shown.splitlines())) == widest
