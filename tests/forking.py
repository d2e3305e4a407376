"""Forked processes in tests, which share this one's imports; skipped where autograd cannot be forked."""

import os
import pty
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

REASON = "autograd runs in no forked process once its threads were started in this one"
REFUSAL = "autograd's threading in combination with fork-based multiprocessing"
"""What torch says there: CUDA starts such threads, and backward passes within backward passes do."""


def fork() -> int:
    with _forking():
        return os.fork()


def fork_on_terminal() -> tuple[int, int]:
    """The process and its terminal."""
    with _forking():
        return pty.fork()


@contextmanager
def _forking() -> Iterator[None]:
    if torch.cuda.is_initialized():
        pytest.skip(REASON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which holds a lock here
        yield


def skip_if_refused(told: str) -> None:
    """told: the standard error of a child."""
    if REFUSAL in told:
        pytest.skip(REASON)
