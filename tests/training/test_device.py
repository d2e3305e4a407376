import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import porism
from porism.errors import DeviceError
from porism.runs.recipe import override
from porism.tasks import find
from porism.training.device import (
    _onednn_is_slow,
    choose_device,
    choose_precision,
    common_precision,
    fastest_products,
    hardware,
)


def test_a_cpu_is_always_there() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(DeviceError, match="there is no device 'gpu'. Use --device auto, cpu or cuda."):
        choose_device("gpu")


CPU = torch.device("cpu")
LSTM = find("language").recipes["lstm"]
ATTENTION = find("language").recipes["attention"]


@pytest.mark.parametrize(("amx", "chosen"), [(False, "fp32"), (True, "bf16")])
def test_bf16_is_chosen_by_the_kind_of_cpu_and_what_the_recipe_gains(
    amx: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert choose_precision(LSTM, CPU) == chosen
    assert choose_precision(ATTENTION, CPU) == "fp32"
    wide = override(ATTENTION, ["hidden_size=512", "embedding_dim=512"])
    assert choose_precision(wide, CPU) == chosen
    for said in ("fp32", "bf16"):
        assert choose_precision(replace(LSTM, precision=said), CPU) == said


def test_what_is_compared_has_one_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert common_precision([LSTM, LSTM], CPU) == "bf16"
    assert common_precision([LSTM, ATTENTION], CPU) == "fp32"
    # One that names its own keeps it; the others go by it.
    named = {said: replace(ATTENTION, precision=said) for said in ("fp32", "bf16")}
    assert common_precision([LSTM, named["bf16"]], CPU) == "bf16"
    assert common_precision([LSTM, named["fp32"]], CPU) == "fp32"
    assert common_precision([LSTM, ATTENTION, named["bf16"]], CPU) == "fp32"
    assert common_precision([named["bf16"], named["fp32"]], CPU) is None
    assert common_precision([], CPU) is None


@pytest.mark.parametrize(
    ("cpu", "half", "off"),
    [
        ({"architecture": "arm64", "bf16": False}, False, True),
        ({"architecture": "arm64", "bf16": False}, True, False),
        ({"architecture": "arm64", "bf16": True}, False, False),
        ({"architecture": "x86_64", "avx512_bf16": False}, False, False),
    ],
)
def test_onednn_is_off_where_it_is_slow_and_on_again_after(
    cpu: dict[str, object], half: bool, off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu, raising=False)
    _onednn_is_slow.cache_clear()
    try:
        assert torch._C._get_mkldnn_enabled()
        with fastest_products(half):
            assert torch._C._get_mkldnn_enabled() is not off
        assert torch._C._get_mkldnn_enabled()
    finally:
        _onednn_is_slow.cache_clear()


def test_a_run_names_the_threads_it_was_trained_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that a library set which measured its baselines."""

    def measured(_: object) -> dict[str, object]:
        torch.set_num_threads(2)
        return {"baselines": {}}

    monkeypatch.setattr("porism.training.session._baselines", measured)
    before = torch.get_num_threads()
    try:
        run = porism.train("supervised", "linear", epochs=1, threads=1, progress=False, out=tmp_path / "run")
    finally:
        torch.set_num_threads(before)
    assert json.loads((run.path / "metrics.json").read_text())["hardware"]["threads"] == 1


def test_the_machine_is_named() -> None:
    found = hardware(torch.device("cpu"))
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["memory_gb"] > 0
    assert found["gpu"] is None
