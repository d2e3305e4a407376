"""The memory that is left, and a refusal of data that would take more.

>>> check_fits("scans.npz", 8 * 10**12, "train_images")     # doctest: +SKIP
DataError: scans.npz: train_images takes 7,451 GiB, and 22 GiB of memory are free. ...
"""

import os
from pathlib import Path

from porism.errors import Advice, DataError, advise

GIB = 2**30


def available_bytes() -> float:
    """What this process can still take: of the machine, of its container, and under its own limit."""
    return max(0.0, min(_of_machine(), _of_container(), _under_limit()))


def check_fits(
    where: Path | str, needed: int, what: str, *, taken: int = 0, advice: Advice | str = "Give less data."
) -> None:
    """Refuses what needs more memory than is left. `taken` bytes of it are in memory already."""
    available = available_bytes() + taken
    if needed > available:
        raise DataError(
            f"{where}: {what} takes {needed / GIB:,.3g} GiB, and {available / GIB:,.3g} GiB of memory are free.",
            advise(advice) if isinstance(advice, str) else advice,
        )


def _of_machine() -> float:
    known = _fields("/proc/meminfo")
    if "MemAvailable:" in known:
        return known["MemAvailable:"] * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else float("inf")


def _of_container() -> float:
    """The limit of the control group less what its processes hold; the cache of files is given back when needed."""
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # none, or "max"
        return float("inf")
    return limit - _fields("/sys/fs/cgroup/memory.stat").get("anon", 0)


def _under_limit() -> float:
    """`ulimit -v` less what is taken of it."""
    try:
        import resource
    except ImportError:  # not a Unix
        return float("inf")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return (
        float("inf")
        if limit == resource.RLIM_INFINITY
        else limit - _fields("/proc/self/status").get("VmSize:", 0) * 1024
    )


def _fields(path: str) -> dict[str, int]:
    """The first number after each name in a file of the kernel's; none where there is no such file."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    parts = [line.split() for line in lines]
    return {words[0]: int(words[1]) for words in parts if len(words) > 1 and words[1].isdigit()}
