"""The machine: which device, which number format pays on it, how many threads, and what to say of it in a report."""

import os
import platform
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from porism.errors import Advice, DeviceError
from porism.runs.recipe import Recipe
from porism.version import __version__

Precision = Literal["fp32", "bf16"]
USABLE = Advice("Use --device auto, cpu or cuda.", 'Use device="auto", "cpu" or "cuda".')


def choose_device(requested: str) -> torch.device:
    """The device of that name; `auto` is the GPU where there is one."""
    if requested == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(requested)
    except (RuntimeError, TypeError):
        raise DeviceError(f"there is no device {requested!r}.", USABLE) from None
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"device {requested!r} is not supported.", USABLE)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise DeviceError(
            f"device {requested!r} is not there: torch sees {found} CUDA devices.",
            Advice("Use --device cpu or auto.", 'Use device="cpu" or "auto".'),
        )
    return device


def choose_precision(recipe: Recipe, device: torch.device) -> Precision:
    """`fp32` or `bf16`: what the recipe says, or for `auto` what trains it faster on a machine of this kind.

    By its kind and not by a measurement, so that the same command gives the same bits when it is busy.
    """
    if recipe.precision != "auto":
        return recipe.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if cpu_has_amx() and recipe.gains_from_bf16 else "fp32"


def common_precision(recipes: Collection[Recipe], device: torch.device) -> Precision | None:
    """That of all recipes of a comparison which leave it to the machine: bf16 where each recipe takes it.

    A recipe that names its own keeps it, and counts here. None where each does.
    """
    if all(recipe.precision != "auto" for recipe in recipes):
        return None
    return "fp32" if "fp32" in {choose_precision(recipe, device) for recipe in recipes} else "bf16"


def cpu_has_amx() -> bool:
    """Whether this CPU multiplies tiles of bf16 (AMX of x86). Elsewhere bf16 gains little, or is emulated and slow."""
    return bool(getattr(torch.cpu, "_is_amx_tile_supported", bool)())


@contextmanager
def fastest_products(half: bool) -> Iterator[None]:
    """While this lasts, oneDNN is off where torch's other kernels are faster: on some CPUs of ARM, unless in bf16."""
    onednn: Any = torch.backends.mkldnn
    if half or not onednn.enabled or not _onednn_is_slow():
        yield
        return
    onednn.enabled = False
    try:
        yield
    finally:
        onednn.enabled = True


@cache
def _onednn_is_slow() -> bool:
    """Whether this is an ARM CPU without bf16.

    There oneDNN prepares itself for 0.7 ms at every product with a transposed matrix, such as nn.Linear's, and then
    multiplies no faster than OpenBLAS; its convolutions take 1.2 times, a GELU there and back three times as long.
    """
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return found.get("architecture") == "arm64" and not found.get("bf16")


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
