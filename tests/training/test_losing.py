"""A process that is lost, or that cannot read its batch, ends all of them soon and by one line, in shards too."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.forking import fork, need_fork, waited
from tests.training.test_distributed import LANGUAGE, Run, train, work
from torch._C._distributed_c10d import TCPStore

from porism.training.distributed.launch import Launch, stop_with_torchrun
from porism.training.distributed.lost import ProcessFailed, lost, with_command

AFTER = 3
STAYS = 60
"""Seconds that a process would live on which does not hear that its torchrun has ended."""

LOST = (
    "porism: one of the 2 processes was lost: it has ended, or its machine has. torchrun says which. "
    "What was saved before is intact."
)


def go_on(folder: Path, *shard: str) -> str:
    return " ".join(["Go on with: torchrun ... -m porism train --resume", str(folder / "run"), *shard])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1. GLHF!",
            "it has ended, or its machine has",
        ),
        ("[pair.cc:537] Read error [::1]:1: Connection reset by peer. GLHF!", "it has ended, or its machine has"),
        ("[unbound_buffer.cc:78] Timed out waiting 1800000ms for recv", "it does not answer, nor has it ended"),
        ("NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error", "it cannot be reached"),
    ],
)
def test_what_the_backend_writes_is_put_into_words(said: str, reason: str) -> None:
    (line,) = str(lost(3, RuntimeError(said))).splitlines()
    assert line == f"one of the 3 processes was lost: {reason}. torchrun says which. What was saved before is intact."


def test_a_run_that_torchrun_starts_again_needs_no_command() -> None:
    error = ProcessFailed("process 1 of 2: text.txt has gone.")
    assert with_command(error, Launch(size=2, max_restarts=1), "porism train") is error
    told = with_command(error, Launch(size=2, restarts=1, max_restarts=1), "porism train")
    assert (str(told), told.exit_code) == (f"{error} Go on with: porism train", 2)


def lose(folder: Path, words: list[str], how: dict[str, Any]) -> tuple[Run, list[int]]:
    """Train by two processes, the second of which ends after some steps; what came of it, and the exit codes."""
    need_fork()
    # One that waits for the other would be ended by the alarm of a forked process, with another exit code.
    codes = work(folder, {"lost": {**train(words), **how}}, size=2)
    return Run(folder / "job lost"), codes


def test_a_process_whose_torchrun_is_killed_ends() -> None:
    reading, writing = os.pipe()
    torchrun = fork()
    if not torchrun:
        if not fork():
            stop_with_torchrun({"TORCHELASTIC_RUN_ID": "none"})
            os.write(writing, b"started")
            time.sleep(STAYS)
            os.write(writing, b"alive")
            os._exit(0)
        signal.pause()
    os.close(writing)
    assert os.read(reading, 100) == b"started"
    os.kill(torchrun, signal.SIGKILL)
    assert waited(torchrun) == -signal.SIGKILL
    assert os.read(reading, 100) == b""  # the pipe is closed: it has ended
    os.close(reading)


@pytest.mark.sweep(0)  # a process that loads torch
def test_a_process_that_is_left_alone_as_it_joins_says_so_in_one_line() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    launch = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "porism", *LANGUAGE]
    with subprocess.Popen(words, env=os.environ | launch | address | path, stderr=subprocess.PIPE, text=True) as alone:
        while not store.check(["question 1"]):
            assert alone.poll() is None
            time.sleep(0.01)
        # As torchrun's, or that of rank 0, ends with its process.
        del store
        _, told = alone.communicate()
    assert told == (
        "porism: process 1 of 2 cannot join the others: one of them, or torchrun, has ended. Start all of them again.\n"
    )
    assert alone.returncode == 1


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
    assert (
        last == f"porism: process 1 of 2: text.txt has gone. What was saved before is intact. {go_on(tmp_path, *shard)}"
    )
    assert run.printed(1) == ""


def test_the_first_process_lost_is_said_by_another(tmp_path: Path, text: str) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "5", "--out", str(tmp_path / "run")]
    run, codes = lose(tmp_path, words, {"lost_after": AFTER, "lost": 0})
    assert codes == [9, 0]
    assert run[1]["code"] == 1
    assert run.printed(1).splitlines() == [f"{LOST} {go_on(tmp_path)}"]


def test_a_process_lost_in_shards_ends_the_other_by_one_line(tmp_path: Path, text: str) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "5", "--out", str(tmp_path / "run"), "--shard"]
    run, codes = lose(tmp_path, words, {"lost_after": AFTER})
    assert codes == [0, 9]
    assert run[0]["code"] == 1
    assert len(run[0]["losses"]) == AFTER
    lines = run.printed(0).splitlines()
    assert lines[-1] == f"{LOST} {go_on(tmp_path, '--shard')}"
    assert not any("Traceback" in line for line in lines)
