"""tools/same_bits.py: starts of one training with the same bits pass, others are told and end with 1."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools/same_bits.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = spec_from_file_location("same_bits", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sweep(0)
def test_two_starts_leave_the_same_bits(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["supervised", "--starts", "2", "--threads", "1"]) == 0
    assert "supervised mlp, 1 threads, 2 starts: identical" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "told"), [(0, "2 outcomes"), (1, "failed: no memory")])
def test_other_bits_and_failures_end_with_1(
    tool: ModuleType, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = count()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[0] == sys.executable
        return subprocess.CompletedProcess(command, code, str(next(numbers)), "no memory")

    monkeypatch.setattr(tool.subprocess, "run", run)
    assert tool.main(["graphs", "--starts", "2", "--threads", "1"]) == 1
    assert told in capsys.readouterr().out


def test_every_task_has_a_training() -> None:
    from porism.tasks import TASKS

    words = [sys.executable, str(TOOL), "nothing"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert all(task in refused.stderr for task in TASKS)
