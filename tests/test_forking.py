"""A forked process does not wait for threads that only this one has, and not forever for anything else."""

import os
import signal
import threading

import pytest
import torch
from tests.forking import fork, waited


def test_a_child_runs_where_several_threads_were_used_before() -> None:
    x, before = torch.ones(1000, 1000), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x.exp()  # starts OpenMP's second thread
        child = fork(longest=60)
        if child == 0:
            x.exp()
            os._exit(0)
    finally:
        torch.set_num_threads(before)
    assert waited(child) == 0


def test_a_child_that_waits_for_a_lock_that_nobody_gives_back_is_ended_and_says_where(
    capfd: pytest.CaptureFixture[str],
) -> None:
    child = fork(longest=1)
    if child == 0:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
        os._exit(0)
    assert waited(child) == -signal.SIGALRM
    assert "test_a_child_that_waits_for_a_lock" in capfd.readouterr().err
