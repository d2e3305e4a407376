"""Times probes over their grids, and comes back to the points that other work disturbed."""

import time
from collections.abc import Iterable
from dataclasses import replace

import torch

from porism.cost.measuring.clock import Timing, busy
from porism.cost.measuring.probes import Probe, Sizes
from porism.cost.measuring.rates import Rates

BUDGET = {"cpu": 0.004, "cuda": 0.002}
"""Seconds of timing at each point of a grid."""

LONG_ENOUGH = {"cpu": 0.008, "cuda": 0.001}
"""Seconds of one call from which on a larger one would run at the same rate, and need not be timed."""


def survey(probes: Iterable[Probe], device: torch.device, patience: float) -> tuple[dict[str, Rates], float]:
    """The rates of every probe's kind, and the share of points that were never undisturbed."""
    grids = [_Grid(probe, device) for probe in probes]
    end = time.perf_counter() + patience
    for grid in grids:
        grid.go_over()
    while any(grid.disturbed for grid in grids) and time.perf_counter() < end:
        time.sleep(0.05)
        for grid in grids:
            if time.perf_counter() < end:
                grid.go_over()
    points = sum(len(grid.timings) for grid in grids)
    return {grid.probe.kind: grid.rates() for grid in grids}, sum(len(grid.disturbed) for grid in grids) / points


class _Grid:
    """A probe and what is known of its points."""

    def __init__(self, probe: Probe, device: torch.device) -> None:
        self.probe = probe
        self.device = device
        self.timings: dict[Sizes, Timing] = {}
        self.hosts: dict[Sizes, float] = {}

    @property
    def disturbed(self) -> list[Sizes]:
        return [sizes for sizes, timing in self.timings.items() if timing.disturbed]

    def go_over(self) -> None:
        """Time each point that is not known well: not at all, or not undisturbed."""
        for sizes in self.probe.points():
            before = self.timings.get(sizes)
            if before is None or before.disturbed:
                found, host = self._from_neighbour(sizes) or self._timed(sizes)
                if before is None or not found.disturbed or found.low < before.low:
                    self.timings[sizes], self.hosts[sizes] = found, host

    def _timed(self, sizes: Sizes) -> tuple[Timing, float]:
        return busy(self.probe.build(*sizes), self.device, BUDGET[self.device.type])

    def _from_neighbour(self, sizes: Sizes) -> tuple[Timing, float] | None:
        """The time at the rate of a smaller neighbour, if that takes long enough already."""
        if not self.probe.saturates:
            return None
        smaller = _one_smaller(self.probe.axes, sizes)
        neighbour = self.timings.get(smaller)
        if neighbour is None or neighbour.disturbed or neighbour.low < LONG_ENOUGH[self.device.type]:
            return None
        times = self.probe.amount(*sizes) / self.probe.amount(*smaller)
        longer = replace(
            neighbour, median=times * neighbour.median, low=times * neighbour.low, high=times * neighbour.high
        )
        return longer, self.hosts[smaller]

    def rates(self) -> Rates:
        per_unit = tuple(self.timings[sizes].low / self.probe.amount(*sizes) for sizes in self.probe.points())
        least = self.timings[next(self.probe.points())].low
        # A CPU is its own host: what a call takes there however small is all that is not work.
        hosts = tuple(self.hosts[sizes] if self.device.type == "cuda" else least for sizes in self.probe.points())
        return Rates(self.probe.axes, per_unit, hosts, least)


def _one_smaller(axes: tuple[Sizes, ...], sizes: Sizes) -> Sizes:
    """The neighbour of a point one step down its highest axis; the first point is its own."""
    places = [axis.index(size) for axis, size in zip(axes, sizes, strict=True)]
    highest = places.index(max(places))
    places[highest] = max(0, places[highest] - 1)
    return tuple(axis[place] for axis, place in zip(axes, places, strict=True))
