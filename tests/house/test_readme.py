"""What the README shows in Python runs, gives what it says, and passes a strict type checker."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
