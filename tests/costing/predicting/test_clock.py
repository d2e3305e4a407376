"""The clock returns the median of undisturbed calls."""

from dataclasses import dataclass

import pytest
import torch

from porism.costing.predicting import clock
from porism.costing.predicting.clock import Timing, busy, host_seconds, measure, using_threads

CPU = torch.device("cpu")


@dataclass
class MadeUpTime:
    """Goes on only while somebody sleeps, so that nothing hangs on how busy a machine is."""

    now: float = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    made = MadeUpTime()
    monkeypatch.setattr(clock, "time", made)
    monkeypatch.setattr(clock, "_waited_for_a_core", lambda: 0.0)
    return made


def test_the_median_and_the_tenths() -> None:
    timing = Timing.of([(float(seconds), False) for seconds in (5, 1, 2, 3, 4)])
    assert (timing.median, timing.low, timing.high, timing.repeats, timing.disturbed) == (3.0, 1.4, 4.6, 5, False)


def test_disturbed_calls_are_left_out_where_enough_are_left() -> None:
    timing = Timing.of([(1.0, False), (1.0, False), (1.0, False), (90.0, True)])
    assert (timing.median, timing.repeats, timing.disturbed) == (1.0, 3, False)


def test_where_too_few_are_left_all_count_and_that_is_said() -> None:
    timing = Timing.of([(1.0, False), (2.0, True), (3.0, True)])
    assert (timing.median, timing.repeats, timing.disturbed) == (2.0, 3, True)


def test_a_call_that_waits_for_a_core_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = iter(range(1000))
    monkeypatch.setattr(clock, "_waited_for_a_core", lambda: float(next(waited)))
    assert measure(lambda: None, CPU, budget=0.0).disturbed


def test_waiting_is_read_from_the_system_and_never_shrinks() -> None:
    before = clock._waited_for_a_core()
    assert 0 <= before <= clock._waited_for_a_core()


def test_a_sleep_takes_its_time(time: MadeUpTime) -> None:
    timing = measure(lambda: time.sleep(0.01), CPU, budget=0.05)
    assert timing.repeats in (5, 6)
    assert (timing.low, timing.median, timing.high) == pytest.approx((0.01, 0.01, 0.01))
    assert host_seconds(lambda: time.sleep(0.002), CPU, calls=1) == pytest.approx(0.002)


def test_the_first_calls_are_not_timed(time: MadeUpTime) -> None:
    calls = []

    def slow_at_first() -> None:
        calls.append(1)
        time.sleep(0.2 if len(calls) <= clock.WARM_UP else 0.001)

    assert measure(slow_at_first, CPU, budget=0.0).high == pytest.approx(0.001)
    assert clock.WARM_UP + clock.LEAST <= len(calls) < 20


@pytest.mark.parametrize("host_counts", [True, False])
def test_the_budget_is_kept_whatever_a_call_says_it_took(host_counts: bool, time: MadeUpTime) -> None:
    def once() -> float:
        time.sleep(0.002)
        return 1e-6

    calls = clock._repeat(once, 0.02, host_counts)
    assert clock.LEAST <= len(calls) <= 12


def test_on_a_cpu_the_device_is_the_host(time: MadeUpTime) -> None:
    timing, host = busy(lambda: time.sleep(0.001), CPU, budget=0.01)
    assert host == timing.low == pytest.approx(0.001)


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    seen = []

    def look() -> None:
        seen.append(torch.get_num_threads())
        if len(seen) == 7:
            raise KeyError

    with using_threads(before + 1):
        look()
    assert (seen, torch.get_num_threads()) == ([before + 1], before)
    with pytest.raises(KeyError):
        measure(look, CPU, threads=before + 2)
    assert (seen[1:], torch.get_num_threads()) == ([before + 2] * 6, before)
