"""A forked process does not wait for threads that only this one has."""

import os
import signal

import torch
from tests.forking import fork, waited


def test_a_child_runs_where_several_threads_were_used_before() -> None:
    x, before = torch.ones(1000, 1000), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x.exp()  # starts OpenMP's second thread
        child = fork()
        if child == 0:
            signal.alarm(60)
            x.exp()
            os._exit(0)
    finally:
        torch.set_num_threads(before)
    assert waited(child) == 0
