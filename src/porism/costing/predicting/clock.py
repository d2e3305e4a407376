"""How long a call takes: on a CPU by the wall clock, on a GPU by the device's own.

>>> x = torch.randn(64, 64)
>>> measure(lambda: x @ x, torch.device("cpu"), budget=0.01).repeats >= 3
True
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], Any]

WARM_UP = 2
"""Calls before the clock starts: the first ones compile kernels, choose algorithms and fill the allocator's pools."""

LEAST, MOST = 3, 1000
"""Calls that are timed, whatever the budget says."""

TURN = 0.002
"""Seconds of calls between two tests whether other work disturbed them."""

DISTURBED = 0.02
"""The share of that time that threads may wait for a core before the timing is not the device's."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median, and the tenth and ninetieth percentile.

    Calls whose threads had to wait for a core are left out; where too few are left, all count and `disturbed` is
    true: other work had the machine.
    """

    median: float
    low: float
    high: float
    repeats: int
    disturbed: bool = False

    @classmethod
    def of(cls, calls: list[tuple[float, bool]]) -> "Timing":
        """From the seconds of each call, and whether it was disturbed."""
        calm = [seconds for seconds, disturbed in calls if not disturbed]
        disturbed = len(calm) < LEAST
        seconds = [seconds for seconds, _ in calls] if disturbed else calm
        tenths = statistics.quantiles(seconds, n=10, method="inclusive")
        return cls(statistics.median(seconds), tenths[0], tenths[-1], len(seconds), disturbed)


def measure(function: Call, device: torch.device, budget: float = 0.2, threads: int | None = None) -> Timing:
    """The time of one call, from as many as fit in `budget` seconds.

    On a GPU a call starts on an idle device and ends when its last kernel does, so launches count where the device
    waits for them. Calls repeat on the same tensors: what fits in a cache (the L2 of a GPU among them) is found there.
    """
    with using_threads(threads):
        for _ in range(WARM_UP):
            function()
        if device.type == "cuda":
            return Timing.of(_repeat(lambda: _gpu_seconds(function), budget))
        return Timing.of(_repeat(lambda: _wall_seconds(function), budget, host_counts=True))


def busy(function: Call, device: torch.device, budget: float) -> tuple[Timing, float]:
    """What the device itself spends on a call, and the seconds that the host needs to start it.

    A CPU is its own host, so both are the call. On a GPU calls queue after a kernel that only waits, so that no launch
    is late.
    """
    if device.type != "cuda":
        timing = measure(function, device, budget)
        return timing, timing.low
    for _ in range(WARM_UP):
        function()
    launch = host_seconds(function, device)
    calls = max(1, min(20, int(budget / 5 / max(launch, _gpu_seconds(function)))))
    return Timing.of(_repeat(lambda: _queued_gpu_seconds(function, calls, launch) / calls, budget)), launch


def host_seconds(function: Call, device: torch.device, calls: int = 4) -> float:
    """What a call keeps the host busy for: until it returns on a CPU, until its kernels are launched on a GPU."""
    times = []
    for _ in range(5):
        wait_for(device)
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    wait_for(device)
    return min(times)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads inside the block; None leaves it as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _repeat(once: Callable[[], float], budget: float, host_counts: bool = False) -> list[tuple[float, bool]]:
    """The seconds of each call, and, where the host is what is timed, whether a core was missing in its turn.

    To ask that takes longer than a small call, so a turn is all the calls that go into a few milliseconds.
    """
    calls: list[tuple[float, bool]] = []
    start = time.perf_counter()
    while len(calls) < LEAST or (time.perf_counter() < start + budget and len(calls) < MOST):
        waited = _waited_for_a_core() if host_counts else 0.0
        began = time.perf_counter()
        turn = [once()]
        while host_counts and time.perf_counter() < began + TURN and len(turn) < MOST:
            turn.append(once())
        disturbed = host_counts and _waited_for_a_core() - waited > DISTURBED * sum(turn)
        calls += [(seconds, disturbed) for seconds in turn]
    return calls


def _waited_for_a_core() -> float:
    """Seconds that the threads of this process could have run and had no core; zero where the system does not tell."""
    waited = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            waited += int(thread.read_text().split()[1])
        except (OSError, IndexError):  # a thread that has ended by now
            continue
    return waited / 1e9


def _wall_seconds(function: Call) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _gpu_seconds(function: Call) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _queued_gpu_seconds(function: Call, calls: int, launch: float) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    # The kernel that waits counts cycles, of which a GPU has at most 2 a nanosecond or so; twice the launches' time.
    torch.cuda._sleep(int(2 * 2e9 * launch * calls) + 100_000)
    start.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3
