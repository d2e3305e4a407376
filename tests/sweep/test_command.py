"""`porism sweep`: a grid in one process and in several, resumed, refused and reported."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests import needs
from tests.sweep.conftest import words

from porism.cli import main
from porism.runs.record import read_run
from porism.training.interrupt import ask_to_stop

pytest.importorskip("optuna", reason="optuna is not installed")

Swept = dict[str, Any]


def sweep(out: Path, text: Path, *more: str, recipes: tuple[str, ...] = ("elman",)) -> list[str]:
    return ["sweep", "language", *recipes, "--data", str(text), "--out", str(out), "--json", *more]


@pytest.fixture(scope="module")
def swept(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of four, in this process. Nobody changes it."""
    out = tmp_path_factory.mktemp("swept") / "grid"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("porism.report.sweep_plots.draw", lambda *_, **__: "<svg></svg>")
        assert main([*sweep(out, text), *words()]) == 0
    return out


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*command: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(command))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def values(result: Swept) -> dict[int, float]:
    return {trial["trial"]: trial["valid"] for trial in result["trials"]}


def test_a_grid_is_tried_once_resumed_for_nothing_and_tested_for_the_chosen_alone(
    swept: Path, text: Path, answer: Any
) -> None:
    before = {path: path.read_bytes() for path in swept.rglob("events.jsonl")}
    code, out, told = answer(*sweep(swept, text, "--resume"), *words())
    assert code == 0
    result = json.loads(out.splitlines()[-1])
    assert {path: path.read_bytes() for path in swept.rglob("events.jsonl")} == before
    assert [trial["setting"] for trial in result["trials"]] == [
        {"hidden_size": size, "learning_rate": rate} for size in (4, 8) for rate in (0.01, 0.1)
    ]
    assert all(trial["outcome"] == "done" for trial in result["trials"])
    # What is said of a trial is what its run says.
    runs = {number: read_run(swept / f"trial-{number:03d}/seed-1") for number in range(1, 5)}
    assert values(result) == {number: run.score("valid", "perplexity") for number, run in runs.items()}
    chosen = result["chosen"]["trial"]
    assert values(result)[chosen] == min(values(result).values())
    assert [number for number, run in runs.items() if run.metrics is not None] == [chosen]
    assert result["chosen"]["results"][0]["metrics"]["test"]["perplexity"] > 1
    assert result["decided"] is False
    assert "One seed cannot tell trial" in " ".join(result["conclusions"])
    assert "4 trials: 4 done" in told
    page = (swept / "report.html").read_text()
    assert result["conclusions"][0] in page
    assert "trial 1 of 4" not in told  # what was done before is not told again


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "already holds a sweep. Choose another --out, or go on with: porism sweep language elman --over"),
        (["--resume", "--over", "dropout=0,0.1"], "is another one: it differs in over, trials."),
        (["--resume", "--seed", "2"], "is another one: it differs in seeds."),
        (["--over", "dropout=0..0.5"], "is a range, and a grid takes values"),
        (["--set", "hidden_size=8"], "hidden_size=8 is set, and --over tries hidden_size"),
        (["--sampler", "tpe"], "needs their number: --trials 20"),
        (["--storage", "sqlite:///x.db"], "SQLite is not made for several writers"),
        (["--storage", "mysql://me@host/x"], "got one of mysql"),
        (["--name", "mine"], "--name is for a sweep in a database"),
        (["--storage", "postgresql://nobody@127.0.0.1:1/none"], "--storage cannot be reached"),
        (["--workers", "0"], "--workers takes a whole number from 1"),
        (["--trials", "0"], "--trials takes a whole number from 1 on, got 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    swept: Path, text: Path, answer: Any, more: list[str], message: str, tmp_path: Path
) -> None:
    if "psycopg" in needs.missing() and "reached" in message:
        pytest.skip("psycopg is not installed")
    code, _, told = answer(*sweep(swept, text), *words(), *more)
    lines = [line for line in told.splitlines() if line.startswith("porism: ")]
    assert code == 2
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in told


def test_without_optuna_the_extra_is_named(
    text: Path, answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, told = answer(*sweep(tmp_path / "s", text), *words())
    assert code == 2
    assert told == 'porism: a sweep needs optuna, which is not installed: pip install "porism[sweep]"\n'
    assert not (tmp_path / "s").exists()


def test_recipes_are_tried_by_pattern_and_a_setting_without_a_result_is_named(
    text: Path, answer: Any, tmp_path: Path
) -> None:
    recipes = ("elman", "lst[m]")
    given = [*words("learning_rate=0.1,1e30"), "--hidden-size", "4", "--test-all"]
    code, out, told = answer(*sweep(tmp_path / "s", text, recipes=recipes), *given)
    assert code == 0, told
    result = json.loads(out.splitlines()[-1])
    assert [trial["setting"]["recipe"] for trial in result["trials"]] == ["elman", "elman", "lstm", "lstm"]
    outcomes = [trial["outcome"] for trial in result["trials"]]
    assert outcomes[0] == outcomes[2] == "done"
    assert "diverged" in outcomes
    assert f"trial {outcomes.index('diverged') + 1} diverged" in result["conclusions"][-1]
    tested = [path.parent.parent.name for path in sorted((tmp_path / "s").glob("trial-*/seed-1/metrics.json"))]
    assert tested == [f"trial-{number:03d}" for number, outcome in enumerate(outcomes, 1) if outcome == "done"]
    assert Path(result["table"]).is_file()


def test_a_setting_that_takes_more_memory_than_there_is_fails_alone(text: Path, answer: Any, tmp_path: Path) -> None:
    code, out, told = answer(*sweep(tmp_path / "s", text), *words("hidden_size=4,10000000"))
    assert code == 0, told
    first, second = json.loads(out.splitlines()[-1])["trials"]
    assert (first["outcome"], second["outcome"], second["reason"]) == ("done", "failed", "out of memory")


def test_settings_that_are_scored_on_other_examples_do_not_compete(text: Path, answer: Any, tmp_path: Path) -> None:
    given = [*words("max_vocab_size=4,100"), "--hidden-size", "4"]
    code, out, told = answer(*sweep(tmp_path / "s", text), *given)
    assert code == 0, told
    first, second = json.loads(out.splitlines()[-1])["trials"]
    assert (first["outcome"], second["outcome"]) == ("done", "failed")
    assert "scored on other examples" in second["reason"]


def test_on_a_terminal_trials_are_shown_while_they_train(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, height=40, legacy_windows=False)
    monkeypatch.setattr("porism.cli.output.console_for", lambda *_, **__: console)
    # After every epoch, however fast they are.
    monkeypatch.setattr("porism.sweep.display.OFTEN", -1.0)
    assert main([*sweep(tmp_path / "grid", text), *words("hidden_size=4,8")]) == 0
    shown = re.findall(r"2 trials: ([\w, ]*?) *\n", re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", stream.getvalue()))
    stages = ["1 running, 1 waiting", "1 done, 1 waiting", "1 running, 1 done", "2 done"]
    assert sorted(set(shown), key=shown.index) == stages


def test_ctrl_c_keeps_everything_and_prints_the_command_that_goes_on(
    swept: Path, text: Path, answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "grid"
    with monkeypatch.context() as patch:
        patch.setattr("porism.sweep.worker._TrialProgress.step", lambda progress, units: ask_to_stop())
        code, _, told = answer(*sweep(out, text), *words())
    assert code == 130
    line = told.splitlines()[-1]
    assert line.startswith("porism: stopped, and saved. Go on with: porism sweep language elman --over hidden_size=4,8")
    assert not list(out.glob("trial-002/*"))
    code, answered, told = answer(*shlex.split(line.partition("Go on with: ")[2])[1:], "--json")
    assert code == 0, told
    assert values(json.loads(answered.splitlines()[-1])) == {
        number: read_run(swept / f"trial-{number:03d}/seed-1").score("valid", "perplexity") for number in range(1, 5)
    }
    assert read_run(out / "trial-001/seed-1").resumes == 1


@pytest.mark.sweep(0)
def test_a_killed_sweep_goes_on_in_two_processes_with_the_same_bits(
    swept: Path, text: Path, answer: Any, tmp_path: Path
) -> None:
    out = tmp_path / "grid"
    command = [sys.executable, "-m", "porism", *sweep(out, text), *words()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | _path())
    try:
        events = out / "trial-002/seed-1/events.jsonl"
        while not (events.is_file() and '"epoch"' in events.read_text()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    code, answered, told = answer(*sweep(out, text, "--resume", "--workers", "2"), *words())
    assert code == 0, told
    assert "a worker ended" not in told
    result = json.loads(answered.splitlines()[-1])
    assert len(result["trials"]) == 4
    assert result["chosen"]["trial"] == _chosen(swept)
    for number in range(1, 5):
        run = f"trial-{number:03d}/seed-1"
        weights = "best/model.safetensors"
        assert (out / run / weights).read_bytes() == (swept / run / weights).read_bytes()


@pytest.mark.sweep(1)
def test_ctrl_c_stops_several_workers_in_the_middle_of_their_trials(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    endless = [word.replace("epochs=2", "epochs=1000000") for word in words()]
    command = [*sweep(out, text, "--workers", "2"), *endless, "--set", "patience=1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "porism", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | _path(),
    )
    try:
        for events in (out / f"trial-{number:03d}/seed-1/events.jsonl" for number in (1, 2)):
            while not (events.is_file() and '"epoch"' in events.read_text()):
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    line = told.decode().splitlines()[-1]
    assert line.startswith("porism: stopped, and saved. Go on with: porism sweep language elman")
    assert "--workers 2" in line


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _chosen(folder: Path) -> int:
    (metrics,) = folder.glob("trial-*/seed-1/metrics.json")
    return int(metrics.parent.parent.name.removeprefix("trial-"))
