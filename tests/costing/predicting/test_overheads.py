"""What the host adds to a call is what a long pass takes above a short one and above the calls alone."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from tests.costing.predicting.conftest import HOST
from torch import nn

from porism.costing.predicting import overheads as room
from porism.costing.predicting.calibration import Peaks
from porism.costing.predicting.overheads import Overheads, host_of, overheads

CPU = torch.device("cpu")
TRUE = Overheads(forward=4e-6, backward=5e-6, enter=20e-6, start=70e-6, forward_view=1e-6, backward_view=2e-6)


class _Sinh(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sinh()


def taken(passes: room._Passes, peaks: Peaks) -> Iterator[float]:
    """What a host of these overheads would take for the passes, in the order they are timed."""
    yield room.VIEWS * TRUE.forward_view
    yield room.VIEWS * TRUE.backward_view
    for direction, before in (("forward", TRUE.enter), ("backward", TRUE.start)):
        for stage in (nn.Tanh(), room._long()):
            kernels = passes.kernels(stage, direction)
            yield before + sum(TRUE.around(kernel) + host_of(kernel, peaks.rates) for kernel in kernels)


def test_the_overheads_of_a_known_host_are_found(monkeypatch: pytest.MonkeyPatch, cpu: Peaks) -> None:
    times = taken(room._Passes(CPU), cpu)
    monkeypatch.setattr(room._Passes, "seconds", lambda *_: next(times))
    found = overheads(CPU, cpu.rates)
    for name in Overheads.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name)), name


def test_no_overhead_is_negative_on_this_machine(cpu: Peaks) -> None:
    found = overheads(CPU, cpu.rates)
    assert all(getattr(found, name) >= 0 for name in Overheads.__struct_fields__)
    assert found.forward_view > 0


def test_the_long_pass_goes_through_different_code() -> None:
    names = [kernel.name for kernel in room._Passes(CPU).kernels(room._long(), "forward")]
    assert len(names) >= 10
    assert len(set(names)) >= 8
    assert all(before != after for before, after in pairwise(names))


def test_a_call_of_a_kind_nobody_measured_costs_the_host_what_a_copy_does(cpu: Peaks) -> None:
    (kernel,) = room._Passes(CPU).kernels(_Sinh(), "forward")
    unknown = kernel._replace(work=(kernel.work[0]._replace(kind="nothing known"),))
    assert host_of(unknown, cpu.rates) == pytest.approx(HOST)
