"""What is known of a device is measured once, kept, and measured anew where it must be."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import DAY, SLIDING, Device, operands
from torch._subclasses.fake_tensor import FakeTensorMode

from porism.costing.counting.count import count
from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates, fit_rates
from porism.layers import (
    choose_attention,
    softmax_attention,
)
from porism.layers.attention.auto import MethodWorkload, attention
from porism.layers.attention.methods import METHODS
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.request import RequestSizes


def kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "porism" / "mechanisms").iterdir()
    return file


def test_a_device_is_measured_once(device: Device, tmp_path: Path) -> None:
    q, k, v = operands()
    for _ in range(2):
        attention(q, k, v, pattern=SLIDING)
        device.forget()
    assert device.measured == ["softmax with a dense mask", "window", "dense-softmax with a mask"]
    # What another pattern needs is measured when it is, and kept beside the rest.
    attention(q, k, v, pattern=Pattern("block", window_size=4))
    device.forget()
    attention(q, k, v, pattern=SLIDING)
    assert device.measured[3:] == ["window in blocks"]
    assert kept(tmp_path).name.endswith(f"float64_torch-{torch.__version__.replace('+', '-')}.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"version": 3}', b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_measured_anew(device: Device, tmp_path: Path, content: bytes) -> None:
    q, k, v = operands()
    choose_attention(q, k, v)
    kept(tmp_path).write_bytes(content)
    device.forget()
    choose_attention(q, k, v)
    assert device.measured == ["softmax", "dense-softmax"] * 2
    device.forget()
    choose_attention(q, k, v)
    assert len(device.measured) == 4


def test_another_version_measures_anew(device: Device, tmp_path: Path) -> None:
    q, k, v = operands()
    choose_attention(q, k, v)
    device.forget()
    device.monkeypatch.setattr(calibration, "__version__", "another")
    choose_attention(q, k, v)
    assert len(device.measured) == 4


def test_types_and_threads_are_kept_apart(device: Device, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    choose_attention(*operands())
    choose_attention(*operands(dtype=torch.float32))
    try:
        torch.set_num_threads(threads + 1)
        choose_attention(*operands())
    finally:
        torch.set_num_threads(threads)
    assert len(device.measured) == 6
    assert len(list((tmp_path / "porism" / "mechanisms").iterdir())) == 3


def test_what_other_work_has_disturbed_is_used_and_not_kept(device: Device, tmp_path: Path) -> None:
    device.disturbed = 0.5
    q, k, v = operands()
    for _ in range(2):
        assert choose_attention(q, k, v).calibrated == f"{DAY} while other work disturbed it"
    assert device.measured == ["softmax", "dense-softmax"]
    assert not (tmp_path / "porism").exists()


def test_refresh_measures_again(device: Device) -> None:
    q, k, v = operands()
    assert choose_attention(q, k, v).name == "softmax"
    device.favourite = "dense-softmax"
    assert choose_attention(q, k, v).name == "softmax"
    assert choose_attention(q, k, v, refresh=True).name == "dense-softmax"
    assert choose_attention(q, k, v).name == "dense-softmax"
    assert device.measured == ["softmax", "dense-softmax"] * 2


def test_tensors_that_stand_in_for_others_measure_nothing(device: Device) -> None:
    q, k, v = operands(65, H=3, device="meta", dtype=torch.float32)
    choice = choose_attention(q, k, v, pattern=SLIDING)
    assert attention(q, k, v, pattern=SLIDING).shape == q.shape
    assert str(choice).startswith("window: 0.000")
    assert str(choice).endswith("(T=65, W=5; meta, not calibrated)")
    assert choose_attention(q, k, v).name == "softmax"
    with FakeTensorMode():
        fake = operands(65, dtype=torch.float64)
        assert choose_attention(*fake, pattern=SLIDING).name == "window"
        attention(*fake, pattern=SLIDING)
    assert device.measured == []
    choose_attention(*operands(65), pattern=SLIDING)
    with FakeTensorMode():
        choice = choose_attention(*operands(65), pattern=SLIDING)
        assert (choice.name, choice.calibrated) == ("softmax", DAY)


def test_a_measurement_is_no_part_of_what_is_counted(device: Device) -> None:
    q, k, v = operands(9, dtype=torch.float32)

    def measure(workload: MethodWorkload, *place: Any) -> MethodRates:
        torch.randn(64, 64) @ torch.randn(64, 64)
        return device.measure(workload, *place)

    device.monkeypatch.setattr(calibration, "_measured_rates", measure)
    counted = count(lambda *x: attention(*x, pattern=SLIDING), q, k, v)
    assert device.measured
    assert counted.flops == count(lambda *x: softmax_attention(*x, pattern=SLIDING), q, k, v).flops


def test_rates_are_found_from_sums_and_none_is_below_zero() -> None:
    amounts = [{"calls": 1.0, "pairs": T**2, "numbers": T} for T in (1.0, 3.0, 10.0, 50.0)]
    found = fit_rates(amounts, [some["calls"] * 0.5 + some["pairs"] * 0.25 for some in amounts])
    assert [found["calls"], found["pairs"], found.get("numbers", 0.0)] == pytest.approx([0.5, 0.25, 0.0], abs=1e-12)
    # Times that fall with the length can only be told by a rate below zero.
    falling = fit_rates([{"calls": 1.0, "pairs": T} for T in (1.0, 2.0, 3.0)], [3.0, 2.0, 1.0])
    assert set(falling) == {"calls"}


def test_a_calibration_leaves_the_one_that_asks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [RequestSizes(B=1, A=2, T=T, S=T, D=4, H=4, pattern=SLIDING) for T in (7, 9, 12, 40)]
    window = METHODS["window"]
    monkeypatch.undo()
    monkeypatch.setattr(type(window), "trials", lambda *_: few)
    monkeypatch.setattr(calibration, "TRIAL_PATIENCE", 0.0)
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    rates = calibration._measured_rates(MethodWorkload(window, "window", few[0]), torch.device("cpu"), 1)
    assert torch.equal(torch.rand(3), wanted)
    for backward in (False, True):
        assert rates.seconds(window.work(few[0]._replace(backward=backward)), backward) > 0
