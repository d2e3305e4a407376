"""Where what was measured of a device is kept, and how it is read back."""

import os
import platform
import re
import warnings
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
import torch

Measured = TypeVar("Measured", bound=msgspec.Struct)


def place(room: str, device: torch.device, dtype: torch.dtype, threads: int) -> Path:
    """The file for one device, type of number, number of threads and version of torch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parts = [name(device), f"{threads} threads", str(dtype).removeprefix("torch."), f"torch {torch.__version__}"]
    return cache / "porism" / room / (re.sub(r"[^\w.-]+", "-", "_".join(parts)) + ".json")


@cache
def name(device: torch.device) -> str:
    """What the device is called by its maker, or as near to that as the system tells."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.is_file() else ""
    found = re.search(r"model name\s*: (.+)", text) or re.search(r"CPU part\s*: (.+)", text)
    return f"{platform.machine()} {found[1].strip() if found else platform.processor()}".strip()


def read(file: Path, kind: type[Measured]) -> Measured | None:
    """What the file holds; None where there is none, or none that can be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def write(file: Path, measured: msgspec.Struct) -> None:
    """Under another name first, so that nobody ever reads half a file. Where nothing can be kept, that is said."""
    text = msgspec.json.encode(measured)
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        warnings.warn(
            f"{file.parent.name}: what was measured cannot be kept in {file.parent}: {error}. "
            "Let XDG_CACHE_HOME name a folder that can be written.",
            stacklevel=3,
        )
