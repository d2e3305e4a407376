"""Forked processes in tests, which share this one's imports; skipped where autograd cannot be forked."""

import os
import warnings
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch

REASON = "autograd runs in no forked process once its threads were started in this one"
REFUSAL = "autograd's threading in combination with fork-based multiprocessing"
"""What torch says there: CUDA starts such threads, and backward passes within backward passes do."""

Forked = TypeVar("Forked")


def fork(how: Callable[[], Forked] = os.fork) -> Forked:  # type: ignore[assignment]
    """os.fork() or pty.fork()."""
    if torch.cuda.is_initialized():
        pytest.skip(REASON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which holds a lock here
        return how()


def skip_if_refused(told: str) -> None:
    """told: the standard error of a child."""
    if REFUSAL in told:
        pytest.skip(REASON)
