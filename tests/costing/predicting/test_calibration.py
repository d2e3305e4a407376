"""A device's constants are measured once, kept under its name, and measured anew where the file is no good."""

from pathlib import Path

import pytest
import torch

from porism.costing.counting.kernels import _KINDS, MEMORY_KINDS, POINTWISE_KINDS
from porism.costing.predicting import calibration as room
from porism.costing.predicting.calibration import Peaks, of
from porism.costing.predicting.probes import ProbeBench
from porism.errors import DeviceError


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpu: Peaks) -> list[int]:
    """The number of threads of every measurement, which takes no time here; the cache is empty."""
    runs: list[int] = []

    def survey(*_: object) -> tuple[object, float]:
        runs.append(torch.get_num_threads())
        return cpu.rates, 0.0625

    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(room, "survey", survey)
    monkeypatch.setattr(room, "overheads", lambda *_: cpu.overheads)
    return runs


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "porism" / "peaks").iterdir())


def test_the_second_time_comes_from_the_cache(measured: list[int], tmp_path: Path) -> None:
    first, second = of("cpu"), of("cpu")
    assert len(measured) == 1
    assert first == second
    (file,) = kept(tmp_path)
    assert file.name.endswith(f"threads_float32_torch-{torch.__version__.replace('+', '-')}.json")
    assert (second.kind, second.dtype, second.disturbed) == ("cpu", "float32", 0.0625)


def test_what_other_work_has_disturbed_is_not_kept(
    measured: list[int], tmp_path: Path, cpu: Peaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "survey", lambda *_: (cpu.rates, 0.5))
    assert of("cpu").disturbed == 0.5
    assert not (tmp_path / "porism").exists()


def test_refresh_measures_again(measured: list[int], tmp_path: Path) -> None:
    of("cpu")
    of("cpu", refresh=True)
    assert len(measured) == 2
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"device": 3}', b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_measured_anew(measured: list[int], tmp_path: Path, content: bytes) -> None:
    of("cpu")
    (file,) = kept(tmp_path)
    file.write_bytes(content)
    assert of("cpu") == of("cpu")
    assert len(measured) == 2


def test_constants_of_another_version_are_measured_anew(
    measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of("cpu")
    monkeypatch.setattr(room, "__version__", "another")
    assert of("cpu").version == "another"
    assert len(measured) == 2


def test_threads_and_types_are_kept_apart(measured: list[int], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    of("cpu")
    of("cpu", threads=before + 1)
    of("cpu", torch.float64)
    assert measured == [before, before + 1, before]
    assert torch.get_num_threads() == before
    assert len(kept(tmp_path)) == 3


def test_where_nothing_can_be_kept_that_is_said_and_nothing_half_is_left(
    measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.warns(
        UserWarning, match="^peaks: what was measured cannot be kept in .*: no space left on device. Let"
    ):
        assert of("cpu").kind == "cpu"
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("mps", "^peaks: mps cannot be measured. Use cpu or cuda.$"),
        pytest.param(
            "cuda",
            "^peaks: device cuda is not there, torch sees no CUDA device. Use cpu.$",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_a_device_that_cannot_be_measured_is_refused(device: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        of(device)


def test_the_peaks_are_the_best_product_and_the_largest_copy(cpu: Peaks) -> None:
    assert [cpu.flops, cpu.bandwidth] == pytest.approx([1e12, 1e11])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_kind_of_work_is_measured(device: str) -> None:
    measured = {probe.kind for probe in ProbeBench(torch.device(device), torch.float32).probes()}
    products = {f"{kind}_{layout}" for kind in ("product", "batched") for layout in ("nn", "nt", "tn")}
    passes = {
        f"{kind}{way}" for kind in ("convolution", "depthwise", "attention", "recurrence") for way in ("", "_backward")
    }
    assert {*products, *passes, *MEMORY_KINDS, *POINTWISE_KINDS, "softmax", "softmax_backward", "random"} == measured
    assert set(POINTWISE_KINDS) <= set(_KINDS)
