"""What torch.autocast asks for on a tensor's device, and how to do without it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def autocast_dtype(*tensors: Tensor) -> torch.dtype | None:
    """The type in which products of these tensors, all on one device, are to be computed; None for their own.

    Autocast is always off on `meta`, and leaves float64 alone.
    """
    first = tensors[0]
    if not _is_enabled(first) or any(tensor.dtype is torch.float64 for tensor in tensors):
        return None
    return torch.get_autocast_dtype(first.device.type)


def without_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which products keep the types of their operands."""
    return torch.autocast(tensor.device.type, enabled=False) if _is_enabled(tensor) else nullcontext()


def _is_enabled(tensor: Tensor) -> bool:
    return not tensor.is_meta and torch.is_autocast_enabled("cpu" if tensor.is_cpu else tensor.device.type)
