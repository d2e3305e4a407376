"""On a device of round numbers the predicted time is the one worked out by hand, and the bound has its name."""

from dataclasses import replace

import msgspec
import pytest
import torch
from tests.costing.predicting.conftest import BANDWIDTH, FLOPS, HOST, LEAST
from torch import nn

from porism.costing.counting.count import Count, count
from porism.costing.derive import derive
from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import Peaks
from porism.costing.predicting.clock import measure
from porism.costing.predicting.overheads import host_of
from porism.costing.predicting.probes import ProbeBench, survey
from porism.costing.predicting.time import predict, readable


def counted(module: nn.Module, *shape: int) -> Count:
    with torch.device("meta"):
        return count(module.to("meta"), torch.randn(*shape))


def test_a_product_takes_its_flops_and_the_hosts_share(cpu: Peaks) -> None:
    M, K, N = 512, 1024, 2048
    product = count(torch.mm, torch.empty(M, K, device="meta"), torch.empty(K, N, device="meta"))
    predicted = predict(product, cpu)
    assert predicted.forward == pytest.approx(2 * M * K * N / FLOPS + cpu.overheads.enter + cpu.overheads.forward)
    assert predicted.backward == 0.0


def test_a_copy_takes_its_bytes(cpu: Peaks) -> None:
    number = 10**7
    predicted = predict(count(torch.clone, torch.empty(number, device="meta")), cpu)
    assert predicted.seconds == pytest.approx(8 * number / BANDWIDTH + 3e-6)
    assert predicted.bound == "memory"


def test_a_kernel_never_takes_less_than_its_bytes(cpu: Peaks) -> None:
    # A product so thin that its factors take longer to read than to multiply: 2 flops for 4 bytes.
    thin = count(torch.mm, torch.empty(1, 4096, device="meta"), torch.empty(4096, 4096, device="meta"))
    assert predict(thin, cpu).kernels[0].device == pytest.approx(4 * (4096 + 4096**2 + 4096) / BANDWIDTH)
    assert predict(thin, cpu).bound == "memory"


def test_the_backward_pass_has_a_start_and_its_own_calls(cpu: Peaks) -> None:
    predicted = predict(counted(nn.Linear(4, 4), 4, 4), cpu)
    calls = [entry for entry in predicted.kernels if entry.kernel.direction == "backward"]
    assert predicted.backward == pytest.approx(cpu.overheads.start + len(calls) * (LEAST + cpu.overheads.backward))


def test_the_smallest_calls_are_all_overhead(cpu: Peaks, gpu: Peaks) -> None:
    for constants in (cpu, gpu):
        shares = predict(counted(nn.Linear(4, 4), 4, 4), constants).shares
        assert shares == {"compute": 0.0, "memory": 0.0, "overhead": 1.0}


@pytest.mark.parametrize(
    ("module", "shape", "bound"),
    [
        (nn.Linear(2048, 2048), (4096, 2048), "compute"),
        (nn.LayerNorm(4096), (8192, 4096), "memory"),
        (nn.Linear(4, 4), (4, 4), "overhead"),
        (nn.LayerNorm(4), (4, 4), "overhead"),
    ],
    ids=["large linear", "large norm", "small linear", "small norm"],
)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_bound_has_its_name(
    module: nn.Module, shape: tuple[int, ...], bound: str, device: str, request: pytest.FixtureRequest
) -> None:
    predicted = predict(counted(module, *shape), request.getfixturevalue(device))
    assert predicted.bound == bound
    assert sum(predicted.shares.values()) == pytest.approx(1.0)
    assert min(predicted.shares.values()) >= 0.0


def test_on_a_gpu_small_kernels_wait_for_their_launches(gpu: Peaks) -> None:
    run = counted(nn.Sequential(*(nn.Linear(4, 4) for _ in range(5))), 4, 4)
    assert [host_of(kernel, gpu.rates) for kernel in run.kernels] == pytest.approx([HOST] * len(run.kernels))
    launches = sum(HOST + (1e-6 if kernel.direction == "forward" else 2e-6) for kernel in run.kernels)
    # The last kernel ends after the last launch, and none before it is in the way.
    assert predict(run, gpu).seconds == pytest.approx(launches + LEAST)


def test_on_a_gpu_launches_hide_behind_large_kernels(gpu: Peaks) -> None:
    run = counted(nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(5))), 8192, 2048)
    predicted = predict(run, gpu)
    first_launch = HOST + 1e-6
    assert predicted.seconds == pytest.approx(first_launch + sum(entry.device for entry in predicted.kernels))


def test_more_rows_never_take_less_time(cpu: Peaks, gpu: Peaks) -> None:
    for constants in (cpu, gpu):
        times = [predict(counted(nn.Linear(63, 7), B, 63), constants).seconds for B in (1, 2, 7, 63, 1000, 100_000)]
        assert times == pytest.approx(sorted(times))
        assert times[-1] > times[0]


def test_a_slower_device_takes_longer(cpu: Peaks) -> None:
    run = counted(nn.Linear(512, 512), 512, 512)
    slower = {
        kind: type(rates)(rates.axes, tuple(2 * rate for rate in rates.per_unit), rates.hosts, rates.least)
        for kind, rates in cpu.rates.items()
    }
    twice = predict(run, msgspec.structs.replace(cpu, rates=slower))
    assert 1.5 < twice.seconds / predict(run, cpu).seconds <= 2.0


def test_time_is_told_by_module_and_in_words(cpu: Peaks) -> None:
    predicted = predict(counted(nn.Sequential(nn.Linear(1024, 1024), nn.LayerNorm(1024)), 4096, 1024), cpu)
    assert set(predicted.by_path) == {"0", "1"}
    assert predicted.by_path["0"] > predicted.by_path["1"]
    assert replace(predicted, forward=0.001, backward=0.002).text.startswith(
        "3 ms (1 ms forward, 2 ms backward), bound by compute: "
    )
    assert [readable(seconds) for seconds in (2.0, 0.25, 3e-6)] == ["2 s", "250 ms", "3 µs"]


def test_work_of_a_kind_that_was_not_measured_moves_its_bytes(cpu: Peaks) -> None:
    number = 10**7
    predicted = predict(count(torch.tanh, torch.empty(number, device="meta")), cpu)
    assert predicted.seconds == pytest.approx(8 * number / BANDWIDTH + 3e-6)


def test_a_large_product_is_predicted_within_a_factor_of_two_here() -> None:
    """The one check against this machine's clock: both sides are taken at once, so that a busy machine slows both."""
    device = torch.device("cpu")
    (probe,) = [probe for probe in ProbeBench(device, torch.float32).probes() if probe.kind == "product_nn"]
    few = replace(probe, axes=tuple(axis[-2:] for axis in probe.axes))
    x, y = torch.randn(700, 700), torch.randn(700, 700)
    (work,) = count(torch.mm, x, y).kernels[0].work
    ratios = []
    for _ in range(5):
        rates, _ = survey([few], device, patience=0.0)
        ratios.append(rates["product_nn"].seconds(work.sizes, work.amount) / measure(lambda: x @ y, device).median)
        if 0.5 < ratios[-1] < 2.0:
            return
    pytest.fail(f"predicted over measured was {ratios}")


def test_the_time_of_a_cost_is_predicted_without_memory_and_measured_where_asked(
    cpu: Peaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "of", lambda *_: cpu)
    cost = derive(nn.Linear(512, 512), "B 512")
    both = cost.time("cpu", measure=False, B=10**7)  # 20 GB of inputs, were they real
    forward = cost.time("cpu", measure=False, backward=False, B=10**7)
    assert both.measured is None
    assert both.ratio is None
    assert both.bound == "compute"
    assert 0 < forward.predicted < both.predicted / 2
    assert forward.prediction.backward == 0.0
    assert repr(both).startswith("time on a device by hand: predicted ")
    measured = cost.time("cpu", B=4)
    assert measured.measured is not None
    assert measured.measured > 0
    assert measured.to_json().keys() == both.to_json().keys()
    assert "; measured " in repr(measured)


def test_a_budget_of_seconds(cpu: Peaks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "of", lambda *_: cpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cost = derive(nn.Linear(512, 512), "B 512")
    size = cost.solve("B", seconds=0.01)
    assert cost.time("cpu", measure=False, B=size).predicted <= 0.01
    assert cost.time("cpu", measure=False, B=int(size) + 1).predicted > 0.01
    assert repr(size).endswith("(extrapolated: predicted of a device by hand, not measured)")
