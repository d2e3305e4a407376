"""What kernels in Gluon share: where they run, and what differs between versions of it.

Gluon is Triton's language for kernels that place their warps, waits and shared memory by hand. It comes with Triton, is
for one kind of GPU at a time, and its names still change.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

TRUSTED: tuple[tuple[int, ...], ...] = ((3, 6),)
"""Versions of Triton with which the layers take these kernels; with others they take their twins in Triton.

With these each of them was seen to equal float64 on an H200, and two runs to give the same bits.
"""


def version() -> tuple[int, ...]:
    """Of Triton; () where there is none."""
    if find_spec("triton") is None:
        return ()
    import triton

    return tuple(int(part) for part in triton.__version__.split(".")[:2])


@cache
def can_run(device: torch.device) -> bool:
    """Whether kernels for Hopper GPUs can run there."""
    if device.type != "cuda" or version() < (3, 6) or torch.cuda.get_device_capability(device) != (9, 0):
        return False
    from triton import knobs

    return not knobs.runtime.interpret


def taken_on(device: torch.device) -> bool:
    """Whether layers take them there."""
    return version() in TRUSTED and can_run(device)


@cache
def programs(device: torch.device) -> int:
    """How many programs fill a device, one on each multiprocessor."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def load_tile() -> Any:
    """From memory to shared memory, by the engine that copies tiles: as this version calls it."""
    from triton.experimental.gluon.language.nvidia.hopper import tma

    # The old name is still there in later versions, and refuses.
    return tma.async_copy_global_to_shared if version() < (3, 8) else tma.async_load


def all_here() -> Any:
    """The barrier of the warps that run the same code: as this version calls it."""
    from triton.experimental.gluon import language as gl

    return getattr(gl, "thread_barrier", None) or gl.barrier
