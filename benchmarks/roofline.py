"""How well does the roofline tell the time of a layer before it runs?

    python benchmarks/roofline.py                                         two threads of this CPU, fp32
    python benchmarks/roofline.py --device cuda --dtype bfloat16
    python benchmarks/roofline.py --device cuda --explain                 the kernels of every case too

Peer: the clock. Twelve layers at three sizes each, forward with backward: what is predicted from the counted kernels
and the device's constants, against what is measured. The constants come from single operators at other sizes. Leaves
with 1 where the median error is above a quarter or a case is off by more than a factor of two.
"""

import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from kept import machine, result_of
from porism.costing.counting.count import count
from porism.costing.predicting import calibration as peaks
from porism.costing.predicting.clock import Timing, measure, wait_for
from porism.costing.predicting.time import TimePrediction, predict
from porism.layers import Elman, Readout
from sources import checksums

MEASURES = ("costing/predicting",)
MEDIAN_ERROR = 0.25
WORST_FACTOR = 2.0

Inputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A layer at one size: how to make it, and the shapes of its inputs. The `integers` lie below `below`."""

    layer: str
    size: str
    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    below: int = 0
    integers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.layer}, {self.size}"

    def make(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, Inputs]:
        torch.manual_seed(0)
        inputs = [
            torch.randint(self.below, shape, device=device)
            if place in self.integers
            else torch.randn(shape, device=device).to(dtype).requires_grad_()
            for place, shape in enumerate(self.shapes)
        ]
        return self.build().to(device, dtype), tuple(inputs)


class Attention(nn.Module):
    """Self-attention of nn.MultiheadAttention as one argument."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return y


class FusedAttention(nn.Module):
    """Attention alone."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value)


class Loss(nn.Module):
    """The readout's loss as the layer's answer."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.readout = Readout(width, vocabulary)

    def forward(self, h: Tensor, targets: Tensor) -> Tensor:
        return self.readout.loss(h, targets)


def mlp(D: int, H: int) -> nn.Module:
    return nn.Sequential(nn.Linear(D, H), nn.GELU(), nn.Linear(H, D))


def cases(on_gpu: bool) -> list[Case]:
    """Sizes that a user of the device would have; none of them is a point that the constants were measured at."""
    found: list[Case] = []
    sizes = ("small", "middle", "large")

    def add(layer: str, cpu: list[tuple[int, ...]], gpu: list[tuple[int, ...]], make: Callable[..., Case]) -> None:
        found.extend(make(layer, size, *numbers) for size, numbers in zip(sizes, gpu if on_gpu else cpu, strict=True))

    add(
        "linear",
        [(20, 100, 50), (200, 768, 512), (1500, 1200, 1000)],
        [(48, 100, 50), (3000, 768, 768), (12000, 5000, 5000)],
        lambda layer, size, B, D, H: Case(layer, size, lambda: nn.Linear(D, H), ((B, D),)),
    )
    add(
        "mlp",
        [(20, 50, 200), (300, 200, 800), (900, 384, 1536)],
        [(48, 100, 400), (3000, 768, 3072), (12000, 2048, 8000)],
        lambda layer, size, B, D, H: Case(layer, size, lambda: mlp(D, H), ((B, D),)),
    )
    add(
        "layer norm",
        [(50, 100), (2000, 300), (6000, 768)],
        [(50, 100), (6000, 768), (40000, 3000)],
        lambda layer, size, B, D: Case(layer, size, lambda: nn.LayerNorm(D), ((B, D),)),
    )
    add(
        "convolution",
        [(2, 3, 8, 14), (6, 24, 48, 20), (10, 100, 100, 24)],
        [(4, 3, 16, 20), (24, 48, 96, 28), (100, 192, 192, 56)],
        lambda layer, size, B, C, C_out, Y: Case(
            layer, size, lambda: nn.Conv2d(C, C_out, 3, padding=1), ((B, C, Y, Y),)
        ),
    )
    add(
        "depthwise",
        [(2, 24, 14), (6, 96, 20), (10, 192, 28)],
        [(4, 24, 20), (24, 192, 28), (100, 384, 56)],
        lambda layer, size, B, C, Y: Case(
            layer, size, lambda: nn.Conv2d(C, C, 3, padding=1, groups=C), ((B, C, Y, Y),)
        ),
    )
    add(
        "embedding",
        [(50, 1000, 48), (1200, 8000, 200), (5000, 20000, 300)],
        [(100, 1000, 48), (6000, 20000, 300), (50000, 50000, 768)],
        lambda layer, size, B, V, D: Case(
            layer,
            size,
            lambda: nn.Sequential(nn.Embedding(V, D), nn.Linear(D, D)),
            ((B,),),
            below=V,
            integers=(0,),
        ),
    )
    add(
        "lstm",
        [(10, 3, 20, 24), (35, 20, 100, 100), (50, 32, 200, 300)],
        [(10, 3, 20, 24), (35, 20, 200, 200), (100, 96, 800, 800)],
        lambda layer, size, T, B, D, H: Case(layer, size, lambda: nn.LSTM(D, H), ((T, B, D),)),
    )
    add(
        "attention layer",
        [(2, 20, 48, 4), (6, 100, 192, 6), (8, 200, 384, 6)],
        [(2, 20, 48, 4), (24, 200, 384, 6), (24, 1000, 768, 12)],
        lambda layer, size, B, T, D, A: Case(layer, size, lambda: Attention(D, A), ((B, T, D),)),
    )
    add(
        "fused attention",
        [(4, 20, 24), (20, 150, 48), (24, 600, 80)],
        [(8, 50, 24), (100, 300, 48), (200, 1500, 80)],
        lambda layer, size, A, T, D: Case(layer, size, FusedAttention, ((1, A, T, D),) * 3),
    )
    add(
        "encoder layer",
        [(2, 20, 48, 4), (6, 60, 192, 6), (8, 100, 384, 6)],
        [(2, 20, 48, 4), (24, 200, 384, 6), (24, 700, 768, 12)],
        lambda layer, size, B, T, D, A: Case(
            layer, size, lambda: nn.TransformerEncoderLayer(D, A, 4 * D, batch_first=True), ((B, T, D),)
        ),
    )
    add(
        "elman",
        [(10, 3, 20, 24), (35, 20, 50, 100), (35, 40, 200, 300)],
        [(10, 3, 20, 24), (35, 20, 200, 200), (100, 96, 800, 800)],
        lambda layer, size, T, B, D, H: Case(layer, size, lambda: Elman(D, H), ((T, B, D),)),
    )
    add(
        "readout loss",
        [(30, 48, 500), (200, 100, 5000), (700, 200, 10000)],
        [(30, 48, 500), (2000, 200, 10000), (8000, 768, 30000)],
        lambda layer, size, B, H, V: Case(layer, size, lambda: Loss(H, V), ((B, H), (B,)), below=V, integers=(1,)),
    )
    return found


def step(module: nn.Module, inputs: Inputs) -> Callable[[], None]:
    """One forward and backward pass from all outputs, the gradients thrown away."""
    leaves = [*module.parameters(), *(x for x in inputs if x.requires_grad)]

    def answer() -> Tensor:
        output = module(*inputs)
        y: Tensor = output[0] if isinstance(output, tuple) else output
        return y

    seed = torch.ones_like(answer())

    def run() -> None:
        y = answer()
        for leaf in leaves:
            leaf.grad = None
        y.backward(seed)

    return run


def explained(run: Callable[[], None], predicted: TimePrediction, device: torch.device) -> dict[str, Any]:
    """What torch's profiler saw of each operator, beside what was predicted of it, in nanoseconds."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    run()
    wait_for(device)
    with torch.profiler.profile(activities=activities) as profiler:
        run()
        wait_for(device)
    operators: dict[str, Counter[str]] = {}
    for entry in predicted.kernels:
        added = {"calls": 1, "device": round(entry.device * 1e9), "host": round(entry.host * 1e9)}
        operators.setdefault(entry.kernel.name, Counter()).update(added)
    seen = {
        event.key.removeprefix("aten::"): {
            "calls": event.count,
            "device": 1e3 * (event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total),
            "host": 1e3 * event.self_cpu_time_total,
        }
        for event in profiler.key_averages()
    }
    kernels = [
        {**entry.kernel._asdict(), "device": entry.device * 1e9, "host": entry.host * 1e9, "bound": entry.bound}
        for entry in predicted.kernels[:200]
    ]
    return {"predicted": operators, "profiled": seen, "kernels": kernels}


def timed(chosen: list[Case], device: torch.device, dtype: torch.dtype, patience: float) -> dict[str, Timing]:
    """The time of every case; one that other work has disturbed is timed again, as long as patience lasts."""
    found: dict[str, Timing] = {}
    end = time.perf_counter() + patience
    waiting = chosen
    while waiting:
        for case in waiting:
            timing = measure(step(*case.make(device, dtype)), device)
            before = found.get(case.name)
            if before is None or not timing.disturbed or timing.median < before.median:
                found[case.name] = timing
        waiting = [case for case in waiting if found[case.name].disturbed and time.perf_counter() < end]
    return found


def judged(case: Case, predicted: TimePrediction, measured: Timing) -> dict[str, Any]:
    ratio = predicted.seconds / measured.median
    return {
        "layer": case.layer,
        "size": case.size,
        "shapes": case.shapes,
        "predicted_us": round(predicted.seconds * 1e6, 1),
        "measured_us": round(measured.median * 1e6, 1),
        "disturbed": measured.disturbed,
        "ratio": round(ratio, 3),
        "bound": predicted.bound,
        "shares": {bound: round(share, 3) for bound, share in predicted.shares.items()},
    }


def main(
    device: str = "cpu",
    threads: int = 2,
    dtype: str = "float32",
    only: str = "",
    patience: float = 120.0,
    refresh: bool = False,
    explain: bool = False,
    out: Path | None = None,
) -> None:
    """Predict, measure, print and keep.

    only: the cases whose name holds this text; no result is kept then.
    patience: seconds for which cases that other work has disturbed are timed again, and as many for the constants.
    refresh: measure the device's constants again.
    explain: keep the kernels of every case, predicted and profiled, beside the result.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    place, number = torch.device(device), getattr(torch, dtype)
    constants = peaks.of(place, number, threads, refresh, patience)
    print(f"{constants.disturbed:.1%} of the points of the device's constants were disturbed")
    chosen = [case for case in cases(place.type == "cuda") if only in case.name]
    predictions: dict[str, TimePrediction] = {}
    details: dict[str, Any] = {}
    for case in chosen:
        module, inputs = case.make(place, number)
        predictions[case.name] = predict(count(module, *inputs), constants)
        if explain:
            details[case.name] = explained(step(module, inputs), predictions[case.name], place)
    timings = timed(chosen, place, number, patience)
    results = [judged(case, predictions[case.name], timings[case.name]) for case in chosen]
    for row in results:
        remark = "disturbed" if row["disturbed"] else ""
        print(
            f"{row['layer']:16} {row['size']:7} predicted {row['predicted_us']:11,.1f} µs  "
            f"measured {row['measured_us']:11,.1f} µs  ratio {row['ratio']:5.2f}  {row['bound']:8}  {remark}"
        )
    median_error = statistics.median(abs(row["ratio"] - 1) for row in results)
    worst_factor = max(math.exp(abs(math.log(row["ratio"]))) for row in results)
    print(f"median error {median_error:.1%}, worst factor {worst_factor:.2f}, {len(results)} cases")
    if not only:
        kept = {
            **machine(place),
            "sources": checksums(MEASURES, place.type),
            "dtype": dtype,
            "constants_disturbed": constants.disturbed,
            "flops": constants.flops,
            "bandwidth": constants.bandwidth,
            "overheads": msgspec.to_builtins(constants.overheads),
            "median_error": round(median_error, 4),
            "worst_factor": round(worst_factor, 3),
            "results": results,
        }
        file = out or result_of("roofline" if number is torch.float32 else f"roofline_{dtype}", device)
        file.write_text(json.dumps(kept, indent=1) + "\n")
        if explain:
            details["peaks"] = msgspec.to_builtins(constants)
            file.with_name(f"{file.stem}_explained.json").write_text(json.dumps(details, indent=1) + "\n")
    if median_error > MEDIAN_ERROR or worst_factor > WORST_FACTOR:
        sys.exit(1)


if __name__ == "__main__":
    tyro.cli(main)
