"""Grids are measured again until no point is disturbed or patience ends, and what must take long is not timed."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from porism.costing.predicting import probes as room
from porism.costing.predicting.clock import Call, Timing
from porism.costing.predicting.probes import Probe, ProbeBench, Sizes, survey

CPU = torch.device("cpu")


class Machine:
    """Takes a microsecond a unit of work; the first tries of each point are disturbed, and a hundred times slower."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, disturbed_tries: int = 0, rate: float = 1e-6) -> None:
        self.tries: Counter[Sizes] = Counter()
        self.disturbed_tries, self.rate = disturbed_tries, rate
        monkeypatch.setattr(room, "busy", self.busy)

    def probe(self, *axes: Sizes) -> Probe:
        return Probe("kind", axes, lambda *sizes: lambda: sizes, _amount)

    def busy(self, call: Call, *_: Any) -> tuple[Timing, float]:
        sizes = call()
        self.tries[sizes] += 1
        disturbed = self.tries[sizes] <= self.disturbed_tries
        seconds = self.rate * _amount(*sizes) * (100 if disturbed else 1)
        return Timing(seconds, seconds, seconds, 3, disturbed), seconds


def _amount(*sizes: int) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def test_every_point_is_timed_once_on_a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    rates, disturbed = survey([machine.probe((1, 2, 4), (1, 8))], CPU, patience=60.0)
    assert machine.tries == dict.fromkeys([(a, b) for a in (1, 2, 4) for b in (1, 8)], 1)
    assert rates["kind"].per_unit == pytest.approx((1e-6,) * 6)
    assert [rates["kind"].least, disturbed] == pytest.approx([1e-6, 0.0])


def test_disturbed_points_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, disturbed_tries=2)
    rates, disturbed = survey([machine.probe((1, 2))], CPU, patience=60.0)
    assert rates["kind"].per_unit == pytest.approx((1e-6,) * 2)
    assert disturbed == 0.0


def test_patience_ends_and_the_share_of_disturbed_points_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, disturbed_tries=10**9)
    rates, disturbed = survey([machine.probe((1, 2))], CPU, patience=0.0)
    assert rates["kind"].per_unit == pytest.approx((1e-4,) * 2)
    assert disturbed == 1.0
    assert set(machine.tries.values()) == {1}


def test_beyond_a_point_that_takes_long_the_rate_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, rate=1e-3)
    monkeypatch.setitem(room.LONG_ENOUGH, "cpu", 0.003)
    rates, _ = survey([machine.probe((1, 4, 16, 64))], CPU, patience=0.0)
    assert set(machine.tries) == {(1,), (4,)}  # four milliseconds are long enough
    assert rates["kind"].per_unit == pytest.approx((1e-3,) * 4)


def test_a_kind_that_never_saturates_is_timed_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, rate=1e-3)
    survey([replace(machine.probe((1, 4, 16, 64)), saturates=False)], CPU, patience=0.0)
    assert set(machine.tries) == {(1,), (4,), (16,), (64,)}


def test_a_disturbed_point_is_no_measure_for_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, disturbed_tries=1, rate=1e-4)
    monkeypatch.setitem(room.LONG_ENOUGH, "cpu", 0.003)
    survey([machine.probe((1, 4, 16))], CPU, patience=0.0)
    assert set(machine.tries) == {(1,), (4,), (16,)}


def test_every_probe_runs_and_knows_its_work() -> None:
    """At its smallest sizes; a kind that the counting names and nobody measures would pass for a copy."""
    probes = ProbeBench(CPU, torch.float32).probes()
    for probe in probes:
        smallest = next(probe.points())
        probe.build(*smallest)()
        assert probe.amount(*smallest) > 0
    assert len({probe.kind for probe in probes}) == len(probes)
