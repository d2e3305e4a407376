"""What the kernels of all layers share: where they run, and how they read tokens."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

DEVICES = {"cuda"}
"""Where kernels run. Triton's interpreter would take the CPU's tensors too, to see whether kernels are right."""

NUMBERS = (torch.bfloat16, torch.float16, torch.float32)


def available(q: Tensor) -> bool:
    """Whether kernels can run on q. While operations are counted or faked they are torch's, which can be seen."""
    return (
        q.device.type in DEVICES
        and type(q) in (Tensor, nn.Parameter)
        and not torch._C._len_torch_dispatch_stack()
        and run_on(q.device, q.dtype)
    )


def run_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether there are kernels for tensors of this type on this device."""
    return device.type in DEVICES and dtype in NUMBERS and _is_supported(device)


@cache
def _is_supported(device: torch.device) -> bool:
    """Triton is there, bfloat16 products on the device, and an assembler for it that can be trusted."""
    if find_spec("triton") is None:
        return False
    if device.type != "cuda":
        return True
    capability = torch.cuda.get_device_capability(device)
    if capability[0] == 9:
        from porism.layers.kernels.assembler import can_be_trusted

        return can_be_trusted()
    return capability >= (8, 0)
