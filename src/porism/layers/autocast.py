"""What torch.autocast asks for on a tensor's device, and how to do without it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """The type that products are to be computed in, None where autocast is off, as it always is on `meta`."""
    device = tensor.device.type
    return None if tensor.is_meta or not torch.is_autocast_enabled(device) else torch.get_autocast_dtype(device)


def without_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which products keep the types of their operands."""
    if autocast_dtype(tensor) is None:
        return nullcontext()
    return torch.autocast(tensor.device.type, enabled=False)
