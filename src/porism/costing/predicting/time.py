"""How long a counted run takes on a measured device, and what bounds it.

>>> predicted = predict(count(nn.Linear(1024, 1024), torch.randn(512, 1024)), peaks.of("cpu"))
>>> predicted.bound                                     # a large product
'compute'
>>> print(predicted.text)                               # the time of both passes, and the shares of the three bounds

A kernel takes what its kind of work takes at its sizes, and never less than its bytes need. It is bound by memory where
its bytes need half of that time or more, and where it only moves and adds; otherwise by compute. What the
smallest call of its kind takes is overhead, and so is what the host adds to each call: on a CPU before the kernel, on a
GPU beside the kernels that run already.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from porism.costing.counting.count import Count, count
from porism.costing.counting.kernels import MEMORY_KINDS, Kernel
from porism.costing.counting.outputs import Outputs, tensors_of
from porism.costing.predicting import calibration as peaks
from porism.costing.predicting.calibration import Peaks
from porism.costing.predicting.clock import Timing, measure
from porism.costing.predicting.overheads import host_of

BOUNDS = ("compute", "memory", "overhead")


@dataclass(frozen=True)
class KernelTime:
    """A kernel with the seconds that the device is busy with it, those of the host, and what bounds it.

    Of the device's seconds, `least` would go by for the smallest kernel of the kind too.
    """

    kernel: Kernel
    device: float
    host: float
    least: float
    bound: str


@dataclass(frozen=True)
class TimePrediction:
    """Seconds of both passes; which share of them is compute, memory and overhead; and all kernels."""

    forward: float
    backward: float
    shares: dict[str, float]
    kernels: tuple[KernelTime, ...]

    @property
    def seconds(self) -> float:
        return self.forward + self.backward

    @property
    def bound(self) -> str:
        """The largest share."""
        return max(BOUNDS, key=lambda bound: self.shares[bound])

    @property
    def by_path(self) -> dict[str, float]:
        """The device's seconds of each module, without those of the modules inside it."""
        seconds: dict[str, float] = {}
        for timed in self.kernels:
            seconds[timed.kernel.path] = seconds.get(timed.kernel.path, 0.0) + timed.device
        return seconds

    @property
    def text(self) -> str:
        passes = f"{readable(self.forward)} forward, {readable(self.backward)} backward"
        shares = ", ".join(f"{100 * self.shares[bound]:.0f} % {bound}" for bound in BOUNDS)
        return f"{readable(self.seconds)} ({passes}), bound by {self.bound}: {shares}"


def readable(seconds: float) -> str:
    """With the unit that suits: `readable(0.0031)` is 3.1 ms."""
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{seconds * scale:.3g} {unit}"


def predict(counted: Count, peaks: Peaks) -> TimePrediction:
    """The time of a counted run, forward and backward, on the device whose constants these are."""
    timed = tuple(_timed(kernel, peaks) for kernel in counted.kernels)
    forward = [entry for entry in timed if entry.kernel.direction == "forward"]
    backward = [entry for entry in timed if entry.kernel.direction == "backward"]
    before = peaks.overheads.enter, peaks.overheads.start if backward else 0.0
    follow = _side_by_side if peaks.kind == "cuda" else _one_by_one
    host, device = follow(forward, before[0], 0.0)
    middle = max(host, device)
    end = max(follow(backward, host + before[1], device))
    return TimePrediction(middle, end - middle, _shares(timed, end), timed)


def _one_by_one(kernels: list[KernelTime], host: float, device: float) -> tuple[float, float]:
    """When the host and the device are done: they are one, and do one thing after the other."""
    now = max(host, device) + sum(entry.host + entry.device for entry in kernels)
    return now, now


def _side_by_side(kernels: list[KernelTime], host: float, device: float) -> tuple[float, float]:
    """When the host and the device are done: the host runs ahead, a kernel waits for its launch and for its turn."""
    for entry in kernels:
        host += entry.host
        device = max(device, host) + entry.device
    return host, device


def _timed(kernel: Kernel, peaks: Peaks) -> KernelTime:
    rates, overheads = peaks.rates, peaks.overheads
    works = [work for work in kernel.work if work.kind in rates and work.amount]
    least = rates[works[0].kind].least if works else rates["copy"].least
    memory = rates["copy"].seconds((kernel.bytes,), kernel.bytes)
    device = max(memory, sum(rates[work.kind].seconds(work.sizes, work.amount) for work in works))
    host = overheads.around(kernel) + (host_of(kernel, rates) if peaks.kind == "cuda" else 0.0)
    computes = any(work.kind not in MEMORY_KINDS for work in works) and memory < device / 2
    return KernelTime(kernel, device, host, min(least, device), "compute" if computes else "memory")


def _shares(timed: tuple[KernelTime, ...], seconds: float) -> dict[str, float]:
    def share(bound: str) -> float:
        busy = sum(entry.device - entry.least for entry in timed if entry.bound == bound)
        return busy / seconds if seconds else 0.0

    compute, memory = share("compute"), share("memory")
    return {"compute": compute, "memory": memory, "overhead": 1 - compute - memory}


@dataclass(frozen=True, repr=False)
class Time:
    """The seconds of a pass forward and backward on a device: predicted, and measured where that was requested."""

    device: str
    prediction: TimePrediction
    timing: Timing | None = None

    @property
    def predicted(self) -> float:
        """Seconds by the device's calibration."""
        return self.prediction.seconds

    @property
    def measured(self) -> float | None:
        """Seconds that it took: the median of the runs."""
        return None if self.timing is None else self.timing.median

    @property
    def bound(self) -> str:
        """What most of the predicted time goes to: compute, memory or overhead."""
        return self.prediction.bound

    @property
    def ratio(self) -> float | None:
        """Predicted over measured."""
        return None if self.measured is None else self.predicted / self.measured

    def __repr__(self) -> str:
        text = f"time on {self.device}: predicted {self.prediction.text}"
        if self.timing is None:
            return text
        measured = f"measured {readable(self.timing.median)} (median of {self.timing.repeats})"
        return f"{text}; {measured}, predicted over measured {self.ratio:.2f}"

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "predicted_seconds": self.predicted,
            "measured_seconds": self.measured,
            "ratio": self.ratio,
            "bound": self.bound,
            "shares": dict(self.prediction.shares),
        }


def time_of(
    called: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    *,
    measured: bool = True,
    backward: bool = True,
) -> Time:
    """Count and predict a call, and measure it where its tensors are on the device and not fake."""
    constants = peaks.of(device, dtype)
    predicted = predict(count(called, *args, backward=backward, **kwargs), constants)
    if not measured:
        return Time(constants.device, predicted)
    step = one_pass(called, args, kwargs, backward=backward)
    return Time(constants.device, predicted, measure(step, device))


def one_pass(
    called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, backward: bool = True
) -> Callable[[], None]:
    """A call to be timed: forward and, where something needs a gradient, backward from the sum of all outputs."""
    leaves: list[Tensor] = list(called.parameters()) if isinstance(called, nn.Module) else []
    leaves += [leaf for leaf in tensors_of([list(args), kwargs]) if leaf.requires_grad]
    seeds: list[Tensor] = []

    def once() -> None:
        ends = Outputs.of(called(*args, **kwargs)).ends
        for leaf in leaves:
            leaf.grad = None
        if ends and backward:
            if not seeds:  # made in the first call, which is not among those that are timed
                seeds.extend(torch.ones_like(end) for end in ends)
            torch.autograd.backward(ends, seeds)

    return once
