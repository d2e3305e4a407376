"""The memory that is left on a device, and a refusal of a pass that would take more of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from porism.errors import CostError, out_of_memory

GIB = 2**30


@contextmanager
def within_memory(what: str, device: torch.device, kept: int) -> Iterator[None]:
    """Make a pass and run it inside: refused is one that takes more memory than is left.

    kept: what it is known to hold at once, weights, inputs and what its backward pass needs. Where that is too much,
    nothing is made at all. A pass may take more on its way: then an allocation fails inside, before the machine has
    nothing left for others.
    """
    available = available_bytes(device)
    if kept > available:
        raise CostError(f"cost: {what} holds at least {_gib(kept)}, {_free(available, device)}")
    try:
        with _at_most(available, device):
            yield
    except Exception as error:
        if not any(_is_of_memory(one) for one in (error, error.__cause__)):
            raise
        raise CostError(f"cost: {what} takes more memory than there is, {_free(available, device)}") from error


def _is_of_memory(error: BaseException | None) -> bool:
    return error is not None and out_of_memory(error) is not None


def _free(available: float, device: torch.device) -> str:
    return f"and {_gib(available)} are free on {device}. Choose smaller sizes."


def _gib(count: float) -> str:
    """Few digits: `_gib(2.5 * 2**30)` is 2.5 GiB."""
    size = count / GIB
    return f"{size:,.0f} GiB" if size >= 100 else f"{size:.3g} GiB"


@contextmanager
def _at_most(available: float, device: torch.device) -> Iterator[None]:
    """While this lasts, this process is handed out no more of the machine's memory."""
    try:
        import resource
    except ImportError:  # not a Unix
        yield
        return
    taken = _fields("/proc/self/status").get("VmData:")
    if device.type == "cuda" or taken is None:  # torch keeps to a GPU's memory by itself
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [taken * 1024 + int(available), *(limit for limit in before if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def available_bytes(device: torch.device | None = None) -> float:
    """What this process can still take: of a GPU, or of the machine, of its container, and under its own limit."""
    if device is not None and device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return max(0.0, min(_of_machine(), _of_container(), _under_limit()))


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
