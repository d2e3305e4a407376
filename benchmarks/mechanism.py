"""Does mechanism="auto" choose well?

    python benchmarks/mechanism.py                                        two threads of this CPU, fp32
    python benchmarks/mechanism.py --refresh                              calibrate the device anew before

Peer: the best of the mechanisms that it chooses among. Thirty sizes, forward with backward: every mechanism that
computes what is requested and "auto" itself take turns, and the medians are compared. The device is calibrated at other
sizes. Leaves with 1 where "auto" takes more than 1.10 times as long as the best. On a machine that does other things
two runs of the same call differ by more than that, so a case above it is measured once more before it counts.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from porism.costing.predicting.calibration import kept_file
from porism.layers import Pattern, choose_attention
from porism.layers.attention.auto import attention
from porism.training.device import hardware, versions

WORST = 1.10
HOPELESS = 2.0
"""A mechanism that took so many times as long as the fastest in the first turn is in no further one."""
SECONDS, FEWEST, MOST = 1.5, 5, 100
"""Of turns for a case."""

FULL, CAUSAL = Pattern(), Pattern("causal")


@dataclass(frozen=True)
class Case:
    """Sizes of q (B, A, T, D), k and v (B, A, T, H), the pattern, and what may be approximated."""

    sizes: tuple[int, int, int, int, int]
    pattern: Pattern
    allowed: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        letters = ", ".join(f"{letter}={size}" for letter, size in zip("BATDH", self.sizes, strict=True))
        window = "" if self.pattern.window_size is None else f" W={self.pattern.window_size}"
        allowed = "".join(f", {name} {number}" for name, number in self.allowed.items())
        return f"{self.pattern.kind}{window}{allowed}; {letters}"

    def make(self) -> tuple[Tensor, Tensor, Tensor]:
        B, A, T, D, H = self.sizes
        torch.manual_seed(0)
        q, k, v = (torch.randn(B, A, T, width).div_(2).requires_grad_() for width in (D, D, H))
        return q, k, v


def cases() -> list[Case]:
    """Thirty sizes; none of them is one that a calibration times."""

    def sliding(W: int) -> Pattern:
        return Pattern("sliding", window_size=W)

    def block(W: int) -> Pattern:
        return Pattern("block", window_size=W)

    series, near = {"order": 2}, {"order": 2, "window_size": 64}
    return [
        Case((8, 8, 64, 64, 64), sliding(16)),
        Case((1, 8, 128, 16, 16), sliding(64)),
        Case((1, 8, 128, 64, 64), sliding(16)),
        Case((4, 8, 128, 64, 64), sliding(64)),
        Case((2, 8, 256, 32, 32), sliding(128)),
        Case((1, 8, 512, 64, 64), sliding(256)),
        Case((1, 4, 1024, 64, 64), sliding(64)),
        Case((1, 2, 2048, 32, 32), sliding(1024)),
        Case((1, 2, 4096, 64, 64), sliding(64)),
        Case((1, 2, 8192, 16, 16), sliding(64)),
        Case((8, 8, 64, 16, 16), block(16)),
        Case((1, 4, 64, 32, 32), block(32)),
        Case((1, 8, 128, 64, 64), block(64)),
        Case((1, 8, 512, 32, 32), block(256)),
        Case((1, 2, 4096, 16, 64), block(1024)),
        Case((8, 8, 64, 32, 32), FULL),
        Case((1, 8, 256, 16, 64), FULL),
        Case((2, 8, 512, 16, 64), FULL),
        Case((1, 8, 512, 64, 64), FULL),
        Case((1, 4, 2048, 32, 32), FULL),
        Case((4, 8, 128, 64, 64), CAUSAL),
        Case((1, 8, 512, 16, 64), CAUSAL),
        Case((1, 4, 2048, 64, 64), CAUSAL),
        Case((2, 8, 512, 16, 16), FULL, series),
        Case((1, 8, 512, 16, 64), CAUSAL, series),
        Case((1, 8, 1024, 16, 64), CAUSAL, series),
        Case((1, 4, 2048, 32, 32), CAUSAL, series),
        Case((1, 2, 16384, 16, 64), CAUSAL, series),
        Case((1, 4, 2048, 16, 64), CAUSAL, near),
        Case((1, 2, 4096, 16, 16), FULL, near),
    ]


def step(case: Case, mechanism: str, leaves: tuple[Tensor, Tensor, Tensor]) -> Callable[[], float]:
    """One forward and backward pass, timed."""
    gradient = torch.ones(*case.sizes[:3], case.sizes[4])
    needed: dict[str, Any] = dict(case.allowed) if mechanism in ("auto", "hybrid") else {}
    if mechanism.endswith("taylor"):
        needed["order"] = case.allowed["order"]

    def run() -> float:
        start = time.perf_counter()
        y = attention(*leaves, mechanism=mechanism, pattern=case.pattern, **needed)
        torch.autograd.grad(y, leaves, gradient)
        return time.perf_counter() - start

    return run


def warmed_up(run: Callable[[], float]) -> float:
    """A first time. What is fast has to be run twice for it."""
    seconds = run()
    return seconds if seconds > SECONDS else min(seconds, run())


def judged(case: Case) -> dict[str, Any]:
    """Medians of all mechanisms that compute the same, and of "auto", in turns."""
    leaves, draws = case.make(), random.Random(0)
    choice = choose_attention(*leaves, pattern=case.pattern, **case.allowed)
    steps = {name: step(case, name, leaves) for name in ("auto", *choice.flops)}
    first = {name: warmed_up(run) for name, run in steps.items()}
    racing = [name for name, took in first.items() if name == "auto" or took <= HOPELESS * min(first.values())]
    found: dict[str, list[float]] = {name: [] for name in racing}
    start = time.perf_counter()
    while len(found["auto"]) < FEWEST or (time.perf_counter() < start + SECONDS and len(found["auto"]) < MOST):
        # In another order every time: what ran before leaves caches and the allocator in another state.
        for name in draws.sample(racing, len(racing)):
            found[name].append(steps[name]())
    medians = {name: statistics.median(found.get(name, [first[name]])) for name in steps}
    best = min(choice.flops, key=lambda name: medians[name])
    return {
        "case": case.name,
        "calibrated": choice.calibrated,
        "chosen": choice.name,
        "best": best,
        "ratio": round(medians["auto"] / medians[best], 3),
        "measured_ms": {name: round(1e3 * seconds, 3) for name, seconds in medians.items()},
        "predicted_ms": {name: round(1e3 * seconds, 3) for name, seconds in choice.seconds.items()},
    }


def main(threads: int = 2, only: str = "", refresh: bool = False, out: Path | None = None) -> None:
    """Choose, measure, print and keep.

    only: the cases whose name holds this text; no result is kept then.
    refresh: calibrate the device again.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    chosen = [case for case in cases() if only in case.name]
    if refresh:
        kept_file("mechanisms", torch.device("cpu"), torch.float32, threads).unlink(missing_ok=True)
    rows = []
    for case in chosen:
        row = judged(case)
        if row["ratio"] > WORST:
            row = min(row, judged(case), key=lambda found: found["ratio"])
        rows.append(row)
        print(f"{row['case']:52} {row['chosen']:13} best {row['best']:13} {row['ratio']:.2f}  {row['measured_ms']}")
    worst = max(row["ratio"] for row in rows)
    right = sum(row["chosen"] == row["best"] for row in rows)
    if disturbed := sum("disturbed" in row["calibrated"] for row in rows):
        print(f"other work disturbed the calibration of {disturbed} cases")
    print(f"{len(rows)} cases, the best one chosen in {right}, at worst {worst:.2f} times its time")
    if not only:
        place = torch.device("cpu")
        result = {"hardware": hardware(place), "versions": versions(), "worst": worst, "right": right, "results": rows}
        file = out or Path(__file__).parent / "results" / "mechanism.json"
        file.write_text(json.dumps(result, indent=1) + "\n")
    if worst > WORST:
        sys.exit(1)


if __name__ == "__main__":
    tyro.cli(main)
