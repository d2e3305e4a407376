"""Of two processes that train one is killed: the run goes on by two to the same bits, by one but for rounding."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.forking import need_fork
from tests.runs.tiny_runs import same_bits
from tests.training.test_distributed import LANGUAGE, Run, alone, train, work

from porism.errors import RunError
from porism.runs import checkpoint

WORDS = [*LANGUAGE[:-4], "--batch-size", "30", "--seq-len", "6", "--epochs", "3", "--checkpoint-every", "0"]
"""With a checkpoint after each step."""
EPOCH, STEPS = 10, 24
"""Steps of an epoch, and after how many a run is stopped: within the third."""
FIRST = range(3, 500, 45)
"""Before which file operations the first process is killed: as the run begins, and in checkpoints, most of them."""
KILLS: dict[str, dict[str, Any]] = {
    **{f"the first before file operation {number}": {"lost_before": number} for number in FIRST},
    **{f"the second after {steps} steps": {"lost_after": steps} for steps in (0, 5, EPOCH, 17)},
}


def together(folder: Path, name: str, words: list[str], **how: Any) -> list[int]:
    """Train by two processes; the exit codes of the command, 9 of one that was killed."""
    ended = work(folder, {name: {**train([*words, "--quiet"]), **how}}, size=2)
    return [code or Run(folder / f"job {name}")[rank]["code"] for rank, code in enumerate(ended)]


def steps_done(run: Path) -> int:
    """How many steps the checkpoint of a run has."""
    try:
        at = checkpoint.load(run / "last")[0].state["position"]
    except RunError:
        return 0
    return int((at["epoch"] - 1) * EPOCH + at["step"])


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, text: str) -> Path:
    """A run of two processes that nobody killed."""
    need_fork()
    folder = tmp_path_factory.mktemp("straight")
    words = [*WORDS, "--data", text, "--out", str(folder / "run")]
    assert together(folder, "straight", words, stop_after=STEPS) == [130, 130]
    assert steps_done(folder / "run") == STEPS
    return folder / "run"


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kill", KILLS)
def test_a_run_of_which_a_process_is_killed_goes_on(
    kill: str, straight: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the first is killed nobody says in the meantime that it was lost.
    monkeypatch.setattr("porism.training.distributed.processes.ANSWER", timedelta(milliseconds=1))
    run, other = tmp_path / "run", tmp_path / "other"
    begin = [*WORDS, "--data", text, "--out"]
    codes = together(tmp_path, "killed", [*begin, str(run)], run=str(run), **KILLS[kill])
    assert sorted(codes) == [1, 9]
    told = Run(tmp_path / "job killed").printed(codes.index(1)).splitlines()
    assert [line for line in told if line.startswith("porism: one of the 2 processes was lost: it has ended")] == [
        told[-1]
    ]
    shutil.copytree(run, other)

    left, begun = STEPS - steps_done(run), (run / "recipe.toml").exists()
    words = {folder: ["train", "--resume", str(folder)] if begun else [*begin, str(folder)] for folder in (run, other)}
    assert together(tmp_path, "resumed", words[run], stop_after=left) == [130, 130]
    assert same_bits(run, straight)
    alone(words[other], left)
    assert steps_done(other) == STEPS
    for part, expected in checkpoint.read(straight / "last").parts.items():
        if part != "random":
            for name, x in checkpoint.read(other / "last").parts[part].items():
                assert torch.allclose(x, expected[name], rtol=0, atol=1e-5)
