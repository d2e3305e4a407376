"""What a test needs that a machine may lack. Where it is lacking the test, or its file, skips and says why."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch


@cache
def no_triton() -> str | None:
    """Why Triton's kernels cannot run here, on a GPU or in the interpreter; None where they can."""
    if find_spec("triton") is None:
        return 'the kernels are written in Triton: pip install "porism[gpu]"'
    if torch.cuda.is_available():
        return None
    fault: str | None = import_module("porism.testing.interpreter").fault()
    return fault


def triton() -> None:
    """At the top of a file, before it imports a kernel, or inside a test."""
    if reason := no_triton():
        pytest.skip(reason, allow_module_level=True)
