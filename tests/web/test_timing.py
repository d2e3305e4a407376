"""The time of a pass, as the count worker answers it: measured in any case, predicted where the peaks are known."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

pytest.importorskip("fastapi")

from tests.costing.predicting.conftest import made
from tests.web.test_predictions import Heard
from tests.web.test_processes import LSTM

from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import Peaks, kept_file, write_kept
from porism.costing.predicting.overheads import Overheads
from porism.version import __version__
from porism.web.processes import timing
from porism.web.processes.count import DERIVED, calibrate, measure
from porism.web.processes.process import Cancelled

SMALL = {**LSTM, "at": {"T": 3, "B": 2}, "device": "cpu"}


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No peaks in a file, and none in this process."""
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    monkeypatch.setattr(timing, "_measured", {})


@pytest.fixture
def peaks() -> Peaks:
    overheads = Overheads(forward=2e-6, backward=3e-6, enter=1e-6, start=1e-5, forward_view=0.0, backward_view=0.0)
    return msgspec.structs.replace(made("cpu", overheads), version=__version__, threads=torch.get_num_threads())


def told(heard: Heard) -> list[tuple[int, str]]:
    return [(message[2], message[4]) for message in heard.messages if message[0] == "progress"]


def test_a_pass_is_measured_where_nothing_is_known_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "of", lambda *_, **__: pytest.fail("the peaks take a minute to measure"))
    heard = Heard()
    found = measure(SMALL, heard.step)
    assert 0 < found["seconds"] < 60
    assert found["passes"] >= 3
    assert (found["predicted_seconds"], found["bound"]) == (None, None)
    assert (0, "passes timed") in told(heard)


def test_a_prediction_is_that_of_porism_cost_where_the_peaks_are_kept(peaks: Peaks) -> None:
    device = torch.device("cpu")
    write_kept(kept_file("peaks", device, torch.float32, torch.get_num_threads()), peaks)
    found = measure(SMALL, Heard().step)
    expected = DERIVED.get(SMALL).cost.time("cpu", measure=True, **SMALL["at"])
    assert found["predicted_seconds"] == expected.predicted
    assert found["bound"] == expected.bound


def test_peaks_of_another_version_are_not_used(peaks: Peaks) -> None:
    file = kept_file("peaks", torch.device("cpu"), torch.float32, torch.get_num_threads())
    write_kept(file, msgspec.structs.replace(peaks, version="0"))
    assert measure(SMALL, Heard().step)["predicted_seconds"] is None


def test_peaks_that_were_disturbed_are_used_as_long_as_the_process_lives(
    peaks: Peaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def measured(*given: Any) -> Peaks:
        calls.append(given)
        return msgspec.structs.replace(peaks, disturbed=1.0)

    monkeypatch.setattr(calibration, "of", measured)
    first = calibrate(SMALL, Heard().step)
    assert first["predicted_seconds"] > 0
    assert measure(SMALL, Heard().step)["predicted_seconds"] == first["predicted_seconds"]
    assert calibrate(SMALL, Heard().step)["predicted_seconds"] == first["predicted_seconds"]
    assert len(calls) == 1


def test_of_a_slow_pass_one_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SLOW", 0.0)
    assert measure(SMALL, Heard().step)["passes"] == 1


def test_passes_that_take_a_while_are_told_one_by_one_and_stop_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "REPORTED", 0.0)
    heard = Heard()
    measure(SMALL, heard.step)
    passes = [done for done, unit in told(heard) if unit == "passes timed"]
    assert passes == list(range(len(passes)))
    assert len(passes) > 3

    class Impatient(Heard):
        def hear(self, *message: Any) -> None:
            super().hear(*message)
            if message[0] == "progress" and message[2] == 2:
                self.cancelled.add("J")

    stopped = Impatient()
    with pytest.raises(Cancelled):
        measure(SMALL, stopped.step)
    assert told(stopped)[-1] == (2, "passes timed")
