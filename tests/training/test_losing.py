"""A process that is lost, or that cannot read its batch, ends all of them soon and by one line, in shards too."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.forking import need_fork
from tests.training.test_distributed import LANGUAGE, Run, train, work

AFTER = 3
SECONDS = 60
"""As docs/distributed.md says, with both processes started and ended. One that waits would wait for minutes."""


def lose(folder: Path, words: list[str], how: dict[str, Any]) -> tuple[Run, list[int]]:
    """Train by two processes, the second of which ends after some steps; what came of it, and the exit codes."""
    need_fork()
    began = time.monotonic()
    codes = work(folder, {"lost": {**train(words), **how}}, size=2)
    assert time.monotonic() - began < SECONDS
    return Run(folder / "job lost"), codes


@pytest.mark.sweep(1)
@pytest.mark.parametrize("shard", [[], ["--shard"]], ids=["whole", "sharded"])
def test_a_batch_that_one_process_cannot_read_ends_all_with_its_reason(
    shard: list[str], tmp_path: Path, text: str
) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "5", "--out", str(tmp_path / "run"), *shard]
    run, codes = lose(tmp_path, words, {"fails_after": AFTER})
    assert codes == [0, 0]
    assert [run[rank]["code"] for rank in (0, 1)] == [2, 2]
    assert len(run[0]["losses"]) == AFTER
    last = run.printed(0).splitlines()[-1]
    assert last == "porism: process 1 of 2: text.txt has gone. What was saved before is intact."
    assert run.printed(1) == ""


def test_the_first_process_lost_is_said_by_another(tmp_path: Path, text: str) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "5", "--out", str(tmp_path / "run")]
    run, codes = lose(tmp_path, words, {"lost_after": AFTER, "lost": 0})
    assert codes == [9, 0]
    assert run[1]["code"] == 1
    (line,) = run.printed(1).splitlines()
    assert line.startswith("porism: one of the 2 processes was lost: ")
    assert line.endswith("What was saved before is intact.")


def test_a_process_lost_in_shards_ends_the_other_by_one_line(tmp_path: Path, text: str) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "5", "--out", str(tmp_path / "run"), "--shard"]
    run, codes = lose(tmp_path, words, {"lost_after": AFTER})
    assert codes == [0, 9]
    assert run[0]["code"] == 1
    assert len(run[0]["losses"]) == AFTER
    lines = run.printed(0).splitlines()
    assert lines[-1].startswith("porism: one of the 2 processes was lost: ")
    assert not any("Traceback" in line for line in lines)
