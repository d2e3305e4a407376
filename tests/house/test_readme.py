"""What the README shows in Python runs, gives what it says, and passes a strict type checker."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import porism

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks(repository: Path) -> list[str]:
    found = BLOCK.findall((repository / "README.md").read_text(encoding="utf-8"))
    assert found
    return found


def told(block: str, names: dict[str, Any]) -> dict[str, str]:
    """Runs a block. For each bare expression in it what it gives, by the comment beside it."""
    values: dict[str, str] = {}
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "README.md", "eval"), names)
            comment = lines[(statement.end_lineno or 0) - 1].partition("#")[2].strip()
            values[comment] = str(value)
        else:
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
    return values


def untrue(values: dict[str, str]) -> dict[str, str]:
    """A comment that begins with a number is what the expression gives; others are words about it."""
    return {
        comment: value for comment, value in values.items() if comment[:1].isdigit() and not comment.startswith(value)
    }


@pytest.mark.sweep(0)
def test_every_block_runs_and_gives_what_it_says(blocks: list[str]) -> None:
    values = {comment: value for block in blocks for comment, value in told(block, {}).items()}
    assert sum(comment[:1].isdigit() for comment in values) >= 2
    assert untrue(values) == {}


def test_what_is_not_so_is_found() -> None:
    assert untrue(told("x = 3\nx + 1  # 4, and no more\nx + 2  # 4\nx  # a few\n", {})) == {"4": "5"}


def test_every_layer_to_take_home_is_a_name_of_the_package(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Take a layer home\n")[2].partition("\n## ")[0]
    layers = re.findall(r"`([A-Z]\w+)`", section)
    assert {"Grid", "GraphConvolution", "SkipGram", "TaylorAttention"} <= set(layers)
    assert [name for name in layers if name not in porism.__all__] == []


def test_what_is_said_of_other_counters_is_what_was_counted(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    rows = json.loads((repository / "benchmarks/results/counters.json").read_bytes())["rows"]
    (lstm,) = (row["forward"] for row in rows if row["case"] == "LSTM")
    silent = [counter for counter, count in lstm["counts"].items() if count == 0]
    assert silent == ["torch", "fvcore"]
    assert lstm["counts"]["porism"] == lstm["hand"]
    assert "torch's own FlopCounterMode and fvcore count 0" in text
    assert len(lstm["counts"]) == 7
    alike = sum(not row["convention"] for row in rows)
    assert f"[six counters and ours on {len(rows)} cases]" in text
    assert f"the {alike} cases apart that every convention counts alike" in text


@pytest.mark.sweep(0)
def test_every_block_passes_a_strict_type_checker(blocks: list[str], repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    files = [tmp_path / f"block_{number}.py" for number in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block, encoding="utf-8")
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(repository / ".mypy_cache"), *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(repository / "src")}
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def first_hour(repository: Path) -> Any:
    """tools/first_hour.py, which runs every line of the README in a new environment."""
    spec = spec_from_file_location("first_hour", repository / "tools/first_hour.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def test_every_command_is_run_in_the_first_hour_or_named_as_long(first_hour: Any, repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (long,) = (block for block in blocks if text.index(block) == text.index("```sh\n", text.index(first_hour.LONG)) + 6)
    every = [line.partition("#")[0].strip() for block in blocks if block != long for line in block.splitlines()]
    ran = first_hour.shell_lines(text)
    assert {line.replace('"', "'") for line in every if line} <= set(ran)
    assert not {line.partition("#")[0].strip().replace('"', "'") for line in long.splitlines()} & set(ran)
    assert {"porism recipes", "porism runs"} <= set(ran), "commands within sentences"
    for words in first_hour.LEFT_OUT:
        assert any(line.startswith(words) for line in ran), f"{words} is left out and not in the README"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """One whose Python and porism are a shell that fails where it is told to."""
    folder = tmp_path / "env/bin"
    folder.mkdir(parents=True)
    for name in ("python", "porism"):
        (folder / name).write_text('#!/bin/sh\necho "$@"\ncase "$*" in *recipes*) exit 3;; esac\n')
        (folder / name).chmod(0o755)
    return folder.parent


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--only", "runs"], 0, "porism runs"),
        (["--only", "recipes"], 1, "failed: porism recipes"),
        (["--python"], 0, "a script with a module of its own"),
    ],
)
def test_a_line_that_fails_ends_the_first_hour_with_1(
    words: list[str], code: int, told: str, first_hour: Any, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_hour.main(["--environment", str(environment), *words]) == code
    said = capsys.readouterr().out
    assert told in said
    assert "porism sweep" not in said


def test_more_than_ten_minutes_end_the_first_hour_with_1(
    first_hour: Any, environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took: Mapping[str, Any] = {"busy": (0, first_hour.Took(900.0, 500.0)), "late": (0, first_hour.Took(601.0, 700.0))}
    for name, code in (("busy", 0), ("late", 1)):
        monkeypatch.setattr(first_hour, "timed", lambda *_, name=name: took[name])
        assert first_hour.main(["--environment", str(environment), "--only", "porism runs"]) == code
    assert "more than 600 s" in capsys.readouterr().out
