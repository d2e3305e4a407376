"""Does mechanism="auto" choose well?

    python benchmarks/mechanism.py                                        two threads of this CPU, fp32
    python benchmarks/mechanism.py --refresh                              calibrate the device anew before
    python benchmarks/mechanism.py --only sliding --resume                some cases, added to what is there

Peer: the best of the mechanisms that it chooses among. Thirty sizes, forward with backward: every mechanism that
computes what is requested and "auto" itself take turns, each case once, and the medians are compared. How far two
times of the same call differ stands beside it: "auto" calls what it chose, so their ratio is noise and dispatch. The
device is calibrated at other sizes. Leaves with 1 where "auto" takes more than 1.10 times as long as the best in three
turns of four.
"""

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import tyro
from torch import Tensor

from kept import Kept, machine, result_of
from porism.costing.predicting.calibration import kept_file
from porism.layers import Pattern, choose_attention
from porism.layers.attention.auto import attention
from turns import Step, in_turns, spread, times_faster

MEASURES = (
    "layers/attention/auto.py",
    "layers/attention/method.py",
    "layers/attention/hybrid",
    "layers/attention/softmax",
    "layers/attention/taylor",
    "layers/attention/window",
)
WORST = 1.10
HOPELESS = 2.0
"""A mechanism that took so many times as long as the fastest in the first turn is in no further one."""
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


def step(case: Case, mechanism: str, leaves: tuple[Tensor, Tensor, Tensor]) -> Step:
    """One forward and backward pass."""
    gradient = torch.ones(*case.sizes[:3], case.sizes[4])
    needed: dict[str, Any] = dict(case.allowed) if mechanism in ("auto", "hybrid") else {}
    if mechanism.endswith("taylor"):
        needed["order"] = case.allowed["order"]

    def run() -> None:
        y = attention(*leaves, mechanism=mechanism, pattern=case.pattern, **needed)
        torch.autograd.grad(y, leaves, gradient)

    return run


def judged(case: Case, turns: int) -> dict[str, Any]:
    """All mechanisms that compute the same, and "auto", in turns."""
    leaves = case.make()
    choice = choose_attention(*leaves, pattern=case.pattern, **case.allowed)
    steps = {name: step(case, name, leaves) for name in ("auto", *choice.flops)}
    first = {name: taken[0] for name, taken in in_turns(steps, 1).items()}
    racing = {
        name: run
        for name, run in steps.items()
        if name in ("auto", choice.name) or first[name] <= HOPELESS * min(first.values())
    }
    times = in_turns(racing, turns)
    best = min((name for name in racing if name != "auto"), key=lambda name: median(times[name]))
    return {
        "case": case.name,
        "calibrated": choice.calibrated,
        "chosen": choice.name,
        "best": best,
        "ratio": times_faster(times[best], times["auto"]),
        "same_call": times_faster(times[choice.name], times["auto"]),
        "measured_ms": {name: spread(times[name] if name in times else [first[name]]) for name in steps},
        "predicted_ms": {name: round(1e3 * seconds, 3) for name, seconds in choice.seconds.items()},
    }


def main(
    turns: int = 9,
    threads: int = 2,
    only: str = "",
    refresh: bool = False,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Choose, measure, print and keep.

    only: the cases whose name holds this text.
    refresh: calibrate the device again.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    place = torch.device("cpu")
    if refresh:
        kept_file("mechanisms", place, torch.float32, threads).unlink(missing_ok=True)
    kept = Kept(out or result_of("mechanism"), machine(place), {"turns": turns, "threads": threads}, resume, MEASURES)
    for case in cases():
        if only in case.name:
            kept.part(case.name, partial(judged, case, turns))
    rows = list(kept.result["parts"].values())
    if disturbed := sum("disturbed" in row["calibrated"] for row in rows):
        print(f"other work disturbed the calibration of {disturbed} cases")
    right, worst = sum(row["chosen"] == row["best"] for row in rows), max(row["ratio"]["median"] for row in rows)
    print(f"{len(rows)} cases, the best one chosen in {right}, at worst {worst:.2f} times its time")
    if any(row["ratio"]["low"] > WORST for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    tyro.cli(main)
