"""`porism compare --resume` keeps runs that are what is requested now, and refuses all others before it trains."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import TINY, Say
from tests.cli.test_resume import content

from porism.cli import main

FIXED = [*TINY, "--set=precision=fp32", "--device=cpu", "--threads=1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two texts, and a comparison on the first."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    (folder / "other.txt").write_text("the cow sees the dog\nthe dog hears the cow\n" * 60)
    both = ["compare", "language", "elman", "lstm", "--data", str(folder / "text.txt"), "--out", str(folder / "both")]
    assert main([*both, *FIXED]) == 0
    return folder


@pytest.fixture
def both(made: Path, tmp_path: Path) -> Path:
    """A copy of them, in the folder where commands are run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "both"


def compare(made: Path, *words: str) -> list[str]:
    return ["compare", "language", "elman", "lstm", "--out", "both", "--resume", *FIXED,
            f"--data={made / 'text.txt'}", *words]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--set hidden_size=64", "hidden_size is 8, requested 64"),
        ("--set epochs=3", "epochs is 1, requested 3"),
        ("--set learning_rate=0.7", "requested 0.7"),
        ("--seed 9", "seed is 1, requested 9"),
        ("--threads 2", "threads is 1, requested 2"),
        ("--set precision=bf16", "precision is fp32, requested bf16"),
        ("--data manual", "text.txt, requested manual"),
    ],
)
def test_runs_that_are_others_are_refused_run_by_run(
    say: Say, made: Path, both: Path, words: str, message: str
) -> None:
    before = content(both)
    completed = say(compare(made, *words.split()))
    assert completed.code == 2
    assert completed.err.count("\n") == 1
    assert completed.err.count(message) == 2
    assert "both/elman: " in completed.err
    assert "both/lstm: " in completed.err
    assert content(both) == before


def test_one_other_run_is_refused_before_anything_is_trained(say: Say, made: Path, both: Path) -> None:
    shutil.rmtree(both / "elman")
    shutil.copytree(both / "lstm", both / "attention")
    completed = say(compare(made)[:4], "attention", compare(made)[4:], "--set=embedding_dim=8", "--set=hidden_size=8")
    assert completed.code == 2
    assert "both/attention: recipe is lstm, requested attention" in completed.err
    assert not (both / "elman").exists()


def test_data_that_has_changed_in_place_is_refused(say: Say, made: Path, both: Path, tmp_path: Path) -> None:
    command = ["compare", "language", "elman", "--out", "changing", "--data", "text.txt", *FIXED]
    assert say(command).code == 0
    shutil.copy(tmp_path / "other.txt", tmp_path / "text.txt")
    completed = say(command, "--resume")
    assert completed.code == 2
    assert "changing/elman: the sha256 of its data begins" in completed.err


@pytest.mark.parametrize("damage", ["cut off", "altered"])
def test_results_that_are_damaged_are_refused(say: Say, made: Path, both: Path, damage: str) -> None:
    metrics = both / "lstm/metrics.json"
    content = metrics.read_text()
    perplexity = str(json.loads(content)["metrics"]["test"]["perplexity"])
    metrics.write_text(content[:100] if damage == "cut off" else content.replace(perplexity, "1.01"))
    completed = say(compare(made))
    assert completed.code == 2
    assert "both/lstm/metrics.json" in completed.err
    assert completed.err.count("\n") == 1


def test_without_resume_no_run_is_trained_where_another_is_in_the_way(say: Say, made: Path, both: Path) -> None:
    shutil.rmtree(both / "elman")
    completed = say([word for word in compare(made) if word != "--resume"])
    assert completed.code == 2
    assert "both/lstm already holds a run. Choose another --out, or go on with: porism compare" in completed.err
    (line,) = re.findall("go on with: (.*)", completed.err)
    assert say(shlex.split(line)[1:], "--json").code == 0


def test_what_is_requested_again_is_kept_and_the_page_tells_what_ran(say: Say, made: Path, both: Path) -> None:
    before = content(both / "elman")
    shutil.rmtree(both / "lstm")
    completed = say(compare(made), "--json")
    assert completed.code == 0
    assert content(both / "elman") == before
    assert [run["recipe"] for run in json.loads(completed.out)["runs"]] == ["elman", "lstm"]
    page = (both / "report.html").read_text()
    assert "--threads 1 --device cpu --seed 1" in page
    assert str(made / "text.txt") in page
