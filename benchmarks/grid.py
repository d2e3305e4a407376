"""How much faster is a scan by diagonals than one pixel by pixel, and does an image cost what its diagonals cost?

    python benchmarks/grid.py                                     two threads of this CPU, half a minute
    python benchmarks/grid.py --device cuda --out result.json     on a GPU, bf16 and fp32

Peer: the loop over pixels in torch, differentiated by autograd (`layers/grid/naive.py`). Forward and backward; both
take turns within one run, so that the machine's noise meets them alike; a time is the median over turns. On a GPU times
are those of CUDA events, of squares of several sizes too, for which a diagonal's time is given. Before anything is
timed both ways are held against each other; leaves with 1 where they differ.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from porism.layers.recurrent.grid import grid, naive
from porism.layers.recurrent.grid.cost import cost
from porism.testing.gradients import relative_error
from porism.training.device import choose_device, hardware, versions

RESULT = Path(__file__).parent / "results" / "grid.json"
MOST_DIFFERENCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
WARM_UP = 2

Step = Callable[[], list[Tensor]]


def leaves(B: int, C: int, H: int, side: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """An image and the weights, as torch keeps them."""
    draw = torch.Generator().manual_seed(0)
    sizes = {(B, C, side, side): 1.0, (H, C): C**-0.5}
    drawn = [torch.randn(size, generator=draw) * scale for size, scale in sizes.items()]
    drawn += [torch.randn(H, H, generator=draw) * H**-0.5 for _ in range(2)]
    return [part.to(device, dtype).requires_grad_() for part in drawn]


def passes(scan: Callable[..., Tensor], parts: list[Tensor], dy: Tensor) -> Step:
    """Forward and backward: the states, and what reaches the image and the weights."""

    def step() -> list[Tensor]:
        y = scan(*parts)
        return [y.detach(), *torch.autograd.grad(y, parts, dy)]

    return step


def pixel_by_pixel(x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor) -> Tensor:
    return naive.grid(x, weight_in.mT, weight_left.mT, weight_top.mT)


def milliseconds(step: Step, device: torch.device) -> float:
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))
    begin = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - begin)


def medians(steps: dict[str, Step], turns: int, device: torch.device) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + WARM_UP):
        for name, step in steps.items():
            taken = milliseconds(step, device)
            if turn >= WARM_UP:
                times[name].append(taken)
    return {name: statistics.median(kept) for name, kept in times.items()}


def measured(
    B: int, C: int, H: int, side: int, dtype: torch.dtype, device: torch.device, turns: int, against: bool
) -> dict[str, Any]:
    """One size: both ways, or the diagonals alone where pixels would take too long."""
    parts = leaves(B, C, H, side, dtype, device)
    dy = torch.randn(B, H, side, side, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    steps = {"diagonals": passes(grid, parts, dy)}
    row: dict[str, Any] = {"B": B, "C": C, "H": H, "Y": side, "X": side, "dtype": str(dtype).removeprefix("torch.")}
    if against:
        steps["pixels"] = passes(pixel_by_pixel, parts, dy)
        exact = [part.detach().float().requires_grad_() for part in parts]
        both = steps["diagonals"](), passes(pixel_by_pixel, exact, dy.float())()
        row["difference"] = max(relative_error(one.float(), other) for one, other in zip(*both, strict=True))
    times = medians(steps, turns, device)
    row |= {f"{name}_ms": round(taken, 3) for name, taken in times.items()}
    row["ms_a_diagonal"] = round(times["diagonals"] / (2 * side - 1), 5)
    work = cost().at(B=B, C=C, H=H, Y=side, X=side)
    row["gflops_a_second"] = round((work["flops"] + work["backward_flops"]) / times["diagonals"] / 1e6, 1)
    if against:
        row["times_faster"] = round(times["pixels"] / times["diagonals"], 2)
    print(json.dumps(row), flush=True)
    return row


def main(turns: int = 7, threads: int = 2, device: str = "cpu", out: Path = RESULT) -> None:
    """Check, measure, print and keep.

    turns: how often each way is timed at each size.
    out: where to keep the result as JSON.
    """
    torch.set_num_threads(threads)
    place = choose_device(device)
    if place.type == "cuda":
        types = (torch.bfloat16, torch.float32)
        rows = [measured(128, 1, 128, 28, dtype, place, turns, against=True) for dtype in types]
        rows += [
            measured(B, 1, 128, side, dtype, place, turns, against=False)
            for dtype in types
            for B in (1, 8, 32)
            for side in (64, 128, 256)
        ]
    else:
        rows = [measured(32, 1, H, 28, torch.float32, place, turns, against=True) for H in (32, 64, 128)]
    machine = {"hardware": hardware(place), "versions": versions(), "threads": threads}
    out.write_text(json.dumps({**machine, "results": rows}, indent=1) + "\n")
    if wrong := [row for row in rows if row.get("difference", 0.0) > MOST_DIFFERENCE[getattr(torch, row["dtype"])]]:
        sys.exit(f"The two ways differ by {wrong[0]['difference']:.1e} in {wrong[0]['dtype']}.")


if __name__ == "__main__":
    tyro.cli(main)
