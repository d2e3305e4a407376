"""What to say where memory does not suffice: one line with the size that was requested."""

import re

from porism.errors import DeviceError

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
REQUESTED = re.compile(r"(?:tried|Tried|Unable) to allocate ([\d.]+) (bytes|[KMGTPE]iB)")
"""As torch says on a CPU and on a GPU, and numpy."""
OVERFLOW = "Storage size calculation overflowed"
"""As torch says where a size in bytes has more than 64 bits."""


def out_of_memory(error: BaseException) -> DeviceError | None:
    """An error of torch, numpy or Python about memory in our words; None for any other."""
    text = str(error)
    requested = REQUESTED.search(text)
    if requested is None and not isinstance(error, MemoryError) and OVERFLOW not in text:
        return None
    place = "the GPU" if "CUDA" in text else "memory"
    size = f": {_shown(float(requested[1]) * UNITS[requested[2]])} more were requested at once" if requested else ""
    return DeviceError(
        f"{place} does not suffice{size}. Use smaller sizes, such as a smaller --batch-size, or less data."
    )


def _shown(size: float) -> str:
    """
    >>> _shown(20 * 2**30), _shown(1536)
    ('20.0 GiB', '1.5 KiB')
    """
    name = max((unit for unit in UNITS if UNITS[unit] <= size), key=UNITS.__getitem__, default="bytes")
    return f"{size / UNITS[name]:,.1f} {name}"
