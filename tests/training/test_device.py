import pytest
import torch

from porism.errors import DeviceError
from porism.training.device import choose_device, choose_precision, hardware


def test_a_cpu_is_always_there() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(DeviceError, match="there is no device 'gpu'. Use --device auto, cpu or cuda."):
        choose_device("gpu")


@pytest.mark.parametrize(("amx", "chosen"), [(False, "fp32"), (True, "bf16")])
def test_bf16_is_chosen_by_the_kind_of_cpu(amx: bool, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert choose_precision("auto", torch.device("cpu")) == chosen
    assert choose_precision("fp32", torch.device("cpu")) == "fp32"
    assert choose_precision("bf16", torch.device("cpu")) == "bf16"


def test_the_machine_is_named() -> None:
    found = hardware(torch.device("cpu"))
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["memory_gb"] > 0
    assert found["gpu"] is None
