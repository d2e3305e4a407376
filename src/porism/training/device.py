"""The machine: which device, which number format pays on it, how many threads, and what to say of it in a report."""

import functools
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from porism.errors import DeviceError
from porism.version import __version__


def choose_device(requested: str) -> torch.device:
    """The device of that name; `auto` is the GPU where there is one."""
    if requested == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(requested)
    except RuntimeError:
        raise DeviceError(f"there is no device {requested!r}. Use --device auto, cpu or cuda.") from None
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"device {requested!r} is not supported. Use --device auto, cpu or cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise DeviceError(
            f"device {requested!r} is not there: torch sees {found} CUDA devices. Use --device cpu or auto."
        )
    return device


def choose_precision(requested: str, device: torch.device) -> str:
    """`fp32` or `bf16`; for `auto` bf16 exactly where this machine multiplies it clearly faster."""
    if requested != "auto":
        return requested
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if cpu_gain_of_bf16() > 1.5 else "fp32"


@functools.cache
def cpu_gain_of_bf16() -> float:
    """How many times faster this CPU multiplies bf16 than fp32: well above 1 with AMX, far below 1 in emulation."""
    first = _gain_at(rows=64)
    # Emulated bf16 can be a hundred times slower: then there is no need to wait for a product of real size.
    return first if first < 0.3 else _gain_at(rows=512)


def _gain_at(rows: int) -> float:
    a, b = torch.ones(rows, 128), torch.ones(128, 1024)
    return _seconds_of_product(a, b) / _seconds_of_product(a.bfloat16(), b.bfloat16())


def _seconds_of_product(a: torch.Tensor, b: torch.Tensor) -> float:
    a @ b  # the first one may compile a kernel
    times: list[float] = []
    while len(times) < 20 and sum(times) < 0.1:
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)


def hardware(device: torch.device) -> dict[str, Any]:
    """What a report says of the machine."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": _memory_gb(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def versions() -> dict[str, str]:
    """What a report says of the software."""
    return {"porism": __version__, "python": platform.python_version(), "torch": torch.__version__}


def _memory_gb() -> float | None:
    """None where the system does not tell."""
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
