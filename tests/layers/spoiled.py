"""Operands that no kernel can take, and the words in which they are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

SPOILED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "integers": (lambda x: x.long(), r"is torch\.int64, expected one of float32"),
    "bools": (lambda x: x > 0, r"is torch\.bool, expected one of"),
    "complex": (lambda x: x.to(torch.complex64), r"is torch\.complex64, expected one of"),
    "meta": (lambda x: x.to("meta"), r"is on (meta|cpu), (x|input) on (cpu|meta), expected one device"),
    "float64": (lambda x: x.double(), r"torch\.float64.*expected one type"),
    "sparse": (lambda x: x.to_sparse(), r"is torch\.sparse_coo, expected a dense tensor"),
    "a list": (lambda x: x.tolist(), r"is a list, expected a tensor"),
}
each_spoiler = pytest.mark.parametrize("how", SPOILED)
