"""A query goes down from the layer to the products through at most six files, and never comes back up."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import porism.layers.attention.heads as heads
from porism.layers import TaylorAttention

ROOT = Path(heads.__file__).parent
WAY = (
    "taylor/layer.py",
    "heads.py",
    "request.py",
    "taylor/method.py",
    "taylor/kernels/cpu.py",
    "taylor/feature_maps.py",
)
BESIDE = {"taylor/kernels/spans.py", "taylor/kernels/triton/__init__.py"}
"""What is asked beside the way and computes nothing: which slices a span has, and whether a GPU has a kernel."""


def calls_with_tensors(layer: TaylorAttention, x: Tensor) -> list[tuple[str, str]]:
    """The files of caller and callee of every call in layers/attention that is given a tensor."""
    found: list[tuple[str, str]] = []

    def file_of(frame: FrameType | None) -> str | None:
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                return str(path.relative_to(ROOT))
            frame = frame.f_back
        return None

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not Path(frame.f_code.co_filename).is_relative_to(ROOT):
            return
        given = (frame.f_locals.get(name) for name in frame.f_code.co_varnames[: frame.f_code.co_argcount])
        callee, caller = file_of(frame), file_of(frame.f_back)
        if callee and any(isinstance(value, Tensor) for value in given):
            found.append((caller or WAY[0], callee))

    sys.setprofile(watch)
    try:
        layer(x, is_causal=layer.pattern.kind == "causal")
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("backward", [False, True])
def test_a_query_goes_down_six_files_and_never_comes_back(backward: bool) -> None:
    layer = TaylorAttention(16, 2, batch_first=True, warn_above=None)
    calls = calls_with_tensors(layer, torch.randn(1, 5, 16, requires_grad=backward))
    files = {callee for _, callee in calls} - BESIDE
    assert {"request.py", "taylor/method.py", "taylor/kernels/cpu.py", "taylor/feature_maps.py"} <= files
    assert files <= set(WAY), sorted(files - set(WAY))
    up = [(caller, callee) for caller, callee in calls if callee in WAY and caller in WAY]
    assert [pair for pair in up if WAY.index(pair[0]) > WAY.index(pair[1])] == []
