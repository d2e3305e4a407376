import pytest
import torch

from porism.errors import DeviceError
from porism.training import device
from porism.training.device import choose_device, choose_precision, hardware


def test_a_cpu_is_always_there() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(DeviceError, match="there is no device 'gpu'. Use --device auto, cpu or cuda."):
        choose_device("gpu")


@pytest.mark.parametrize(("gain", "chosen"), [(0.01, "fp32"), (1.2, "fp32"), (4.0, "bf16")])
def test_bf16_is_chosen_where_it_was_measured_to_pay(gain: float, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cpu_gain_of_bf16", lambda: gain)
    assert choose_precision("auto", torch.device("cpu")) == chosen
    assert choose_precision("fp32", torch.device("cpu")) == "fp32"
    assert choose_precision("bf16", torch.device("cpu")) == "bf16"


def test_the_gain_is_the_ratio_of_two_times(monkeypatch: pytest.MonkeyPatch) -> None:
    device.cpu_gain_of_bf16.cache_clear()
    seconds = {torch.float32: 6.0, torch.bfloat16: 2.0}
    monkeypatch.setattr(device, "_seconds_of_product", lambda a, b: seconds[a.dtype])
    assert device.cpu_gain_of_bf16() == 3.0
    device.cpu_gain_of_bf16.cache_clear()


def test_the_machine_is_named() -> None:
    found = hardware(torch.device("cpu"))
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["memory_gb"] > 0
    assert found["gpu"] is None
