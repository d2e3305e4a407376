"""Seconds of a pass forward and backward on this machine: measured at once, predicted where its peaks are known.

The peaks of a device take a minute or more to measure, longer than a reader waits for the time of one pass. So a
prediction is made from those that are kept already, and they are measured only where that is requested.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from porism.costing.cost import Cost
from porism.costing.counting.count import count
from porism.costing.counting.staging import quietly
from porism.costing.counting.target import dtype_of
from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import Peaks, kept_file, read_kept
from porism.costing.predicting.clock import measure, wait_for
from porism.costing.predicting.time import one_pass, predict
from porism.version import __version__
from porism.web.processes.process import Cancelled, JobStep

SLOW = 4.0
"""Seconds of a pass from which on one is timed, not the median of several."""
REPORTED = 0.05
"""Seconds of a pass from which on each is reported: a report takes about a tenth of a millisecond."""

_measured: dict[Any, Peaks] = {}
"""Peaks that this process has measured, also those that were disturbed too often to be kept in a file."""


class PassTiming(NamedTuple):
    """Seconds of a pass, of how many passes that is the median, and whether other work took cores from them."""

    seconds: float
    passes: int
    disturbed: bool


def time_pass(cost: Cost, sizes: Mapping[str, int], device: torch.device, step: JobStep, calibrate: bool) -> Any:
    """The seconds of a pass as JSON. calibrate: measure the device's peaks where they are not known."""
    given = {**cost.fixed, **cost.complete_sizes(sizes)}
    with cost.within_memory(given, device), quietly():
        called, args, kwargs = cost.target.call(given, device)
        dtype = cost.target.dtype or dtype_of(called)
        peaks = _known_peaks(device, dtype)
        if peaks is None and calibrate:
            peaks = _measure_peaks(device, dtype, step)
        timing = _timed(one_pass(called, args, kwargs), device, step)
        prediction = None if peaks is None else predict(count(called, *args, **kwargs), peaks)
    return {
        **timing._asdict(),
        "device": calibration.device_name(device),
        "predicted_seconds": None if prediction is None else prediction.seconds,
        "bound": None if prediction is None else prediction.bound,
    }


def _timed(once: Callable[[], None], device: torch.device, step: JobStep) -> PassTiming:
    """The median of several passes; of one where that takes long, so that an answer comes within the job's limit."""
    step.progress(0, None, "passes timed")
    began = time.perf_counter()
    once()
    wait_for(device)
    first = time.perf_counter() - began
    if first > SLOW:
        return PassTiming(first, 1, False)
    passes = 0

    def reported() -> None:
        nonlocal passes
        once()
        passes += 1
        step.progress(passes, None, "passes timed")

    timing = measure(reported if first > REPORTED else once, device)
    return PassTiming(timing.median, timing.repeats, timing.disturbed)


def _known_peaks(device: torch.device, dtype: torch.dtype) -> Peaks | None:
    file = kept_file("peaks", device, dtype, torch.get_num_threads())
    kept = read_kept(file, Peaks)
    return kept if kept is not None and kept.version == __version__ else _measured.get(file)


def _measure_peaks(device: torch.device, dtype: torch.dtype, step: JobStep) -> Peaks:
    with _seconds_reported(step, "s of measuring what this machine can do"):
        peaks = calibration.of(device, dtype)
    _measured[kept_file("peaks", device, dtype, peaks.threads)] = peaks
    return peaks


@contextmanager
def _seconds_reported(step: JobStep, what: str) -> Iterator[None]:
    """Report every second how long something takes that reports nothing by itself."""
    is_over = threading.Event()

    def report() -> None:
        seconds = 0
        while not is_over.wait(1):
            seconds += 1
            try:
                step.progress(seconds, None, what)
            except Cancelled:
                return

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        is_over.set()
        reporter.join()
