"""Shells complete verbs, tasks, recipes, fields, their values, and runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Say

from porism.cli.complete import complete
from porism.cli.completion import SCRIPTS


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("porism ev", ["evaluate"]),
        ("porism train lan", ["language"]),
        ("porism train language elman-b", ["elman-best"]),
        ("porism compare language elman hybrid-p", ["hybrid-ptb"]),
        ("porism compare images pooling", ["pooling-question"]),
        ("porism train language --hidden-s", ["--hidden-size"]),
        ("porism train language --no-tie", ["--no-tie-weights"]),
        ("porism train language --optimizer a", ["adam", "adamw"]),
        ("porism train language --tie-weights elman-b", ["elman-best"]),
        ("porism train language --max-grad-norm ", ["none"]),
        ("porism train images --device c", ["cpu", "cuda"]),
        ("porism evaluate run --split v", ["valid"]),
        ("porism recipes gra", ["graphs"]),
        ("porism runs --task wor", ["words"]),
        ("porism runs --sort m", ["metric"]),
        ("porism completion z", ["zsh"]),
        ("porism data f", ["fetch"]),
        ("porism cost language/elman-b", ["language/elman-best"]),
        ("porism train language --data ", []),
        ("porism train nothing --hid", []),
        ("porism nothing --hid", []),
    ],
)
def test_what_can_stand_at_the_cursor(line: str, answer: list[str]) -> None:
    words = line.split(" ")
    assert complete([str(len(words) - 1), *words]) == answer


def test_runs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/one", "runs/both/two"):
        Path(name).mkdir(parents=True)
        Path(name, "recipe.toml").touch()
    assert complete(["2", "porism", "predict", "runs/"]) == ["runs/one", "runs/both/two"]
    assert complete(["3", "porism", "train", "--resume", "runs/b"]) == ["runs/both/two"]


def test_a_cursor_beyond_the_line_is_no_error(say: Say) -> None:
    assert say("--complete", "1", "porism").out.split()[0] == "train"
    assert say("--complete").out.strip() == ""
    assert say("--complete", "x", "porism").code == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_asks_porism(tmp_path: Path) -> None:
    script = tmp_path / "porism"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m porism "$@"\n')
    script.chmod(0o755)
    asked = (
        f"PATH={tmp_path}:$PATH\n{SCRIPTS['bash']}"
        'COMP_WORDS=(porism train language --optimizer adam); COMP_CWORD=4; _porism; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["adam", "adamw"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_gets_a_script_it_can_read(say: Say, shell: str) -> None:
    script = say("completion", shell).out
    assert "porism --complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
