"""What a device can do, measured once and kept.

>>> peaks = of("cpu")                                   # a minute the first time, at once from then on
>>> peaks.flops, peaks.bandwidth                        # a second, of the best product and of the largest copy
"""

import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import torch

from porism.costing.predicting.clock import Timing, measure, using_threads, wait_for
from porism.costing.predicting.overheads import Overheads, overheads
from porism.costing.predicting.probes import ProbeBench, survey
from porism.costing.predicting.rates import Rates
from porism.errors import DeviceError, RunError
from porism.files import cache_folder, warn_not_kept, write_atomically
from porism.version import __version__

Measured = TypeVar("Measured", bound=msgspec.Struct)

PATIENCE = 40.0
"""Seconds after which points that other work has disturbed are no longer timed again."""

DISTURBED = 0.1
"""The share of disturbed points above which what was measured is used this once and not kept."""


def kept_file(room: str, device: torch.device, dtype: torch.dtype, threads: int) -> Path:
    """The file in the cache for one device, type of number, number of threads and version of torch."""
    parts = [device_name(device), f"{threads} threads", str(dtype).removeprefix("torch."), f"torch {torch.__version__}"]
    return cache_folder() / room / (re.sub(r"[^\w.-]+", "-", "_".join(parts)) + ".json")


@cache
def device_name(device: torch.device) -> str:
    """What the device is called by its maker, or as near to that as the system tells."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.is_file() else ""
    found = re.search(r"model name\s*: (.+)", text) or re.search(r"CPU part\s*: (.+)", text)
    return f"{platform.machine()} {found[1].strip() if found else platform.processor()}".strip()


def read_kept(file: Path, kind: type[Measured]) -> Measured | None:
    """What the file holds; None where there is none, or none that can be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def write_kept(file: Path, measured: msgspec.Struct) -> None:
    """Keep what was measured. Where it cannot be written, warns."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.encode(measured))
    except (OSError, RunError) as error:
        warn_not_kept(f"{file.parent.name}: what was measured", file.parent, error)


class Peaks(msgspec.Struct, frozen=True):
    """The constants of one device, for one type of number, one number of threads and one version of torch."""

    device: str
    kind: str
    threads: int
    dtype: str
    torch: str
    version: str
    disturbed: float
    """The share of the points that could only be timed while other work disturbed them."""
    rates: dict[str, Rates]
    overheads: Overheads

    @property
    def flops(self) -> float:
        """Operations a second of the fastest product."""
        return 1 / min(rates.best for kind, rates in self.rates.items() if kind.startswith(("product", "batched")))

    @property
    def bandwidth(self) -> float:
        """Bytes a second, read and written, of the largest copy: too large for a cache."""
        return 1 / self.rates["copy"].per_unit[-1]


def of(
    device: torch.device | str,
    dtype: torch.dtype = torch.float32,
    threads: int | None = None,
    refresh: bool = False,
    patience: float = PATIENCE,
) -> Peaks:
    """The constants of a device: from the cache, or measured now. `refresh` measures again.

    On a machine that is busy with other things points are timed again and again, for `patience` seconds in all. A file
    in the cache that cannot be read is measured anew; what too much other work has disturbed is not kept.
    """
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"peaks: {device.type} cannot be measured. Use cpu or cuda.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError("peaks: device cuda is not there, torch sees no CUDA device. Use cpu.")
    threads = threads or torch.get_num_threads()
    file = kept_file("peaks", device, dtype, threads)
    known = None if refresh else read_kept(file, Peaks)
    if known is not None and known.version == __version__:
        return known
    with using_threads(threads):
        peaks = _measured(device, dtype, threads, patience)
    if peaks.disturbed <= DISTURBED:
        write_kept(file, peaks)
    return peaks


def _measured(device: torch.device, dtype: torch.dtype, threads: int, patience: float) -> Peaks:
    bench = ProbeBench(device, dtype)
    if device.type == "cuda":
        _wake(device)
    rates, disturbed = survey(bench.probes(), device, patience)
    return Peaks(
        device=device_name(device),
        kind=device.type,
        threads=threads,
        dtype=str(dtype).removeprefix("torch."),
        torch=str(torch.__version__),
        version=__version__,
        disturbed=disturbed,
        rates=rates,
        overheads=overheads(device, rates),
    )


def _wake(device: torch.device) -> None:
    """An idle GPU lowers its clocks."""
    x = torch.randn(4096, 4096, device=device)
    for _ in range(50):
        x @ x
    wait_for(device)


# What a unit of work takes: of workloads that say how much there is to do in each of their calls.

TRIAL_BUDGET = 0.01
"""Seconds of timing for each call that is timed."""

TRIAL_PATIENCE = 3.0
"""Seconds after which calls that other work has disturbed are not timed again, and larger ones not tried."""

FEWEST_TRIALS = 4
"""Calls that are timed whatever they take."""

WorkAmounts = Mapping[str, float]
"""Amounts by kind of work."""


class Trial(Protocol):
    """One call to time."""

    def amounts(self, backward: bool) -> WorkAmounts:
        """How much there is to do, in both passes together if `backward`."""
        ...

    def prepare(self, backward: bool) -> Callable[[], object]:
        """The call itself, with operands that live as long as it does."""
        ...


class Workload(Protocol):
    """Calls of one kind, in which a unit of each kind of work takes about the same time."""

    @property
    def key(self) -> str:
        """Under which what was measured is kept."""
        ...

    def trials(self) -> Sequence[Trial]:
        """Calls to time, from small to large."""
        ...


class MethodRates(msgspec.Struct, frozen=True):
    """Seconds of a unit of each kind of work: forward alone, and both passes together."""

    forward: dict[str, float]
    both: dict[str, float]
    date: str
    disturbed: float = 0.0
    """The share of the calls that could only be timed while other work disturbed them."""

    @property
    def is_calm(self) -> bool:
        return self.disturbed <= DISTURBED

    def seconds(self, amounts: WorkAmounts, backward: bool) -> float:
        """What the amounts take: each times its rate."""
        rates = self.both if backward else self.forward
        return sum(amount * rates.get(kind, 0.0) for kind, amount in amounts.items())


class WorkloadRates(msgspec.Struct):
    """The rates of every workload that was requested so far, by one version of this package."""

    version: str
    rates: dict[str, MethodRates]


_known_rates: dict[Path, WorkloadRates] = {}


def rates(
    workload: Workload,
    device: torch.device,
    dtype: torch.dtype,
    threads: int,
    refresh: bool = False,
    may_measure: bool = True,
) -> MethodRates | None:
    """What a unit of work takes on a device: known, kept, or measured now; None where that cannot be."""
    if device.type != "cpu" and not (device.type == "cuda" and torch.cuda.is_available()):
        return None
    file = kept_file("mechanisms", device, dtype, threads)
    if not refresh and (known := _workload_rates(file).rates.get(workload.key)) is not None:
        return known
    if not may_measure:
        return None
    # In a thread of its own, since counting, tracing and autocast are matters of the one that asks.
    with ThreadPoolExecutor(1) as apart:
        measured = apart.submit(_measured_rates, workload, device, threads).result()
    _workload_rates(file).rates[workload.key] = measured
    if measured.is_calm:
        # Others may have kept further workloads meanwhile.
        write_kept(file, WorkloadRates(__version__, _read_rates(file).rates | {workload.key: measured}))
    return measured


def _workload_rates(file: Path) -> WorkloadRates:
    if file not in _known_rates:
        _known_rates[file] = _read_rates(file)
    return _known_rates[file]


def _read_rates(file: Path) -> WorkloadRates:
    found = read_kept(file, WorkloadRates)
    return found if found is not None and found.version == __version__ else WorkloadRates(__version__, {})


def _measured_rates(workload: Workload, device: torch.device, threads: int) -> MethodRates:
    trials, timings = workload.trials(), list[Timing]()

    def fitted(backward: bool) -> dict[str, float]:
        timed = _timed(trials, device, backward)
        timings.extend(timed)
        amounts = [trial.amounts(backward) for trial in trials[: len(timed)]]
        return fit_rates(amounts, [timing.low for timing in timed])

    with using_threads(threads):
        forward, both = fitted(backward=False), fitted(backward=True)
    disturbed = sum(timing.disturbed for timing in timings) / len(timings)
    return MethodRates(forward, both, date.today().isoformat(), disturbed)


def _timed(trials: Sequence[Trial], device: torch.device, backward: bool) -> list[Timing]:
    """The time of each call, from the smallest on as far as patience and a GPU's memory last."""

    def time_of(trial: Trial) -> Timing:
        call = trial.prepare(backward)
        with torch.set_grad_enabled(backward):
            return measure(call, device, TRIAL_BUDGET)

    end = time.perf_counter() + TRIAL_PATIENCE
    timings: list[Timing] = []
    for trial in trials:
        if len(timings) >= FEWEST_TRIALS and time.perf_counter() > end:
            break
        try:
            timings.append(time_of(trial))
        except torch.OutOfMemoryError:
            break
    while time.perf_counter() < end and (again := [place for place, some in enumerate(timings) if some.disturbed]):
        for place in again:
            timing = time_of(trials[place])
            if not timing.disturbed or timing.low < timings[place].low:
                timings[place] = timing
    return timings


def fit_rates(amounts: Sequence[WorkAmounts], seconds: Sequence[float]) -> dict[str, float]:
    """Rates, none below zero, whose sums of amount times rate are as near to the seconds as can be, relatively.

    >>> fit_rates([{"calls": 1, "pairs": 10}, {"calls": 1, "pairs": 100}], [0.3, 1.2])
    {'calls': 0.2, 'pairs': 0.01}

    Least squares without a constraint, again and again without the kind that comes out furthest below zero, since the
    others explain it already. It stays ours beside scipy's nnls: scipy is no dependency, and rates must not change
    with what else is installed.
    """
    kinds = sorted({kind for some in amounts for kind in some})
    shares = np.array(
        [[some.get(kind, 0.0) / took for kind in kinds] for some, took in zip(amounts, seconds, strict=True)]
    )
    largest = shares.max(axis=0)
    used = [place for place in range(len(kinds)) if largest[place] > 0]
    while True:
        found = np.linalg.lstsq(shares[:, used] / largest[used], np.ones(len(seconds)), rcond=None)[0]
        if found.min() >= 0:
            return {kinds[place]: float(rate / largest[place]) for place, rate in zip(used, found, strict=True)}
        del used[int(found.argmin())]
