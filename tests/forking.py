"""Forked processes in tests, which share this one's imports; skipped where autograd cannot be forked."""

import faulthandler
import os
import pty
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

REASON = "autograd runs in no forked process once its threads were started in this one"
REFUSAL = "autograd's threading in combination with fork-based multiprocessing"
"""What torch says there: backward passes within backward passes start such threads."""
NOT_FORKED = 77
"""The exit code of a child that met that refusal."""
LONGEST = 300
"""Seconds that a child lives: nobody waits forever for one that missed its signal, or waits for a lock of a thread
which was not forked."""


def fork(longest: int = LONGEST) -> int:
    with _forking():
        return _begun(os.fork(), longest)


def fork_on_terminal() -> tuple[int, int]:
    """The process and its terminal."""
    with _forking():
        process, terminal = pty.fork()
        return _begun(process, LONGEST), terminal


def _begun(process: int, longest: int) -> int:
    if process == 0:
        # Says where each thread is, then ends as the signal does.
        faulthandler.register(signal.SIGALRM, 2, all_threads=True, chain=True)
        signal.alarm(longest)
        # OpenMP's other threads are not forked: where a test before has used them, the child would wait for them.
        torch.set_num_threads(1)
    return process


def need_fork() -> None:
    """Skip where a GPU is in sight: to ask for it opens CUDA, which no forked process can open again."""
    if torch.cuda.is_available():
        pytest.skip("CUDA works in no forked process: CUDA_VISIBLE_DEVICES= hides the GPU")


def failed(told: str) -> int:
    """The exit code of a child that ends with such an error."""
    os.write(2, told.encode())
    return NOT_FORKED if REFUSAL in told else 1


def waited(child: int) -> int:
    """The exit code of a child."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == NOT_FORKED:
        pytest.skip(REASON)
    return code


@contextmanager
def _forking() -> Iterator[None]:
    need_fork()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which holds a lock here
        yield


def skip_if_refused(told: str) -> None:
    """told: the standard error of a child."""
    if REFUSAL in told:
        pytest.skip(REASON)
