"""How much faster is the grid net than its scan in plain torch, and does an image cost what its diagonals cost?

    python benchmarks/grid.py                                     two threads of this CPU
    python benchmarks/grid.py --device cuda     on a GPU, bf16 and fp32

Peers: the scan by diagonals that a competent user writes in torch and leaves to autograd (a skewed image, one step a
diagonal), the same under torch.compile, on a GPU also captured in a CUDA graph, and the loop over pixels
(`layers/recurrent/grid/naive.py`). Forward and backward; all take turns within one run. Every way's distance from the
first peer in float32 is kept; leaves with 1 where ours is too far, or a peer computes something else. Peers in bfloat16
round after every step, so what they compute is judged in float32 too. A diagonal's time is given for squares of several
sizes.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import linear, pad

from kept import Kept, machine, result_of
from porism.layers.recurrent.grid import grid, naive
from porism.layers.recurrent.grid.cost import cost
from porism.testing.gradients import relative_error
from porism.training.device import choose_device
from turns import Step, captured, in_turns, spread, times_faster

MEASURES = ("layers/recurrent/grid", "layers/recurrent/grid/naive.py")
MOST_DIFFERENCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
WARM_UP = 2
LARGEST_COMPILED = 28
"""The compiler unrolls the loop: beyond this side it takes minutes."""


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


def diagonals_in_torch(x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor) -> Tensor:
    """h[j, i] of a diagonal i + j = n from those of n - 1, all rows at once: (B, C, Y, X) -> (B, H, Y, X).

    The image is skewed, so that a diagonal is a column: row j is shifted by j to the right.
    """
    B, _, Y, X = x.shape
    inputs = linear(x.permute(0, 2, 3, 1), weight_in)  # B Y X H
    H = inputs.shape[-1]
    skewed = pad(inputs, (0, 0, 0, Y)).reshape(B, -1, H)[:, : Y * (X + Y - 1)].reshape(B, Y, X + Y - 1, H)
    inside = pad(x.new_ones(Y, X), (0, Y)).reshape(-1)[: Y * (X + Y - 1)].reshape(Y, X + Y - 1, 1)
    weights = torch.cat([weight_left, weight_top], 1)
    h, states = x.new_zeros(B, Y, H), []
    for column, within in zip(skewed.unbind(2), inside.unbind(1), strict=True):
        above = pad(h[:, :-1], (0, 0, 1, 0))
        h = torch.sigmoid(column + linear(torch.cat([h, above], 2), weights)) * within
        states.append(h)
    whole = pad(torch.stack(states, 2).reshape(B, -1, H), (0, 0, 0, Y))
    return whole.reshape(B, Y, X + Y, H)[:, :, :X].permute(0, 3, 1, 2)


def ways(parts: list[Tensor], dy: Tensor, side: int, pixels: bool) -> tuple[dict[str, Step], dict[str, str]]:
    """What is compared at one size, compiled and captured before the clock starts; and what cannot be, and why."""
    steps = {"ours": passes(grid, parts, dy), "diagonals in torch": passes(diagonals_in_torch, parts, dy)}
    refused = {}
    if side <= LARGEST_COMPILED:
        torch._dynamo.reset()
        steps["diagonals in torch, compiled"] = passes(torch.compile(diagonals_in_torch), parts, dy)
    if pixels:
        steps["pixel by pixel"] = passes(pixel_by_pixel, parts, dy)
    if dy.is_cuda:
        for name in [name for name in steps if name != "pixel by pixel"]:
            try:
                steps[f"{name}, captured"] = captured(steps[name])
            except Exception as error:
                refused[f"{name}, captured"] = f"{type(error).__name__}: {error}"[:200]
    return steps, refused


def measured(
    B: int, C: int, H: int, side: int, dtype: torch.dtype, device: torch.device, turns: int, pixels: bool
) -> dict[str, Any]:
    """One size: all ways, or without the loop over pixels where that would take too long."""
    parts = leaves(B, C, H, side, dtype, device)
    dy = torch.randn(B, H, side, side, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    steps, refused = ways(parts, dy, side, pixels)
    row: dict[str, Any] = {"B": B, "C": C, "H": H, "Y": side, "X": side, "dtype": str(dtype).removeprefix("torch.")}
    exact = [part.detach().float().requires_grad_() for part in parts]
    expected = passes(pixel_by_pixel if pixels else diagonals_in_torch, exact, dy.float())()

    def difference(step: Step) -> float:
        return max(relative_error(one.float(), other) for one, other in zip(step(), expected, strict=True))

    # A replay gives nothing back, so captured ways are not among them.
    row["difference"] = {name: difference(step) for name, step in steps.items() if "captured" not in name}
    row["difference_in_float32"] = difference(passes(diagonals_in_torch, exact, dy.float()))
    times = in_turns(steps, turns, WARM_UP)
    row |= {"ms": {name: spread(taken) for name, taken in times.items()}, "refused": refused}
    row["compared"] = {}
    for mode in ("", ", captured"):
        peers = [name for name in times if name[:4] != "ours" and name.endswith(", captured") == bool(mode)]
        if "ours" + mode in times and peers:
            best = min(peers, key=lambda name: statistics.median(times[name]))
            faster = times_faster(times["ours" + mode], times[best])
            row["compared"]["ours" + mode] = {"best_peer": best, "times_faster": faster}
    ours = statistics.median(times["ours"])
    row["ms_a_diagonal"] = round(ours / (2 * side - 1), 5)
    work = cost().at(B=B, C=C, H=H, Y=side, X=side)
    row["gflops_a_second"] = round((work["flops"] + work["backward_flops"]) / ours / 1e6, 1)
    return row


def check(name: str, row: dict[str, Any], dtype: torch.dtype) -> None:
    """Leaves with 1 where a way computes something else."""
    exact = MOST_DIFFERENCE[torch.float32]
    if row["difference_in_float32"] > exact:
        sys.exit(f"{name}: diagonals in torch differ from pixel by pixel by {row['difference_in_float32']:.1e}.")
    for way, found in row["difference"].items():
        # Of peers in bfloat16 only what they compute counts here, not how they round.
        most = MOST_DIFFERENCE[dtype] if way == "ours" or dtype == torch.float32 else 1.0
        if found > most:
            sys.exit(f"{name}: {way} differs from float32 by {found:.1e}, more than {most:.0e}.")


def main(turns: int = 7, threads: int = 2, device: str = "cpu", resume: bool = False, out: Path | None = None) -> None:
    """Check, measure, print and keep.

    turns: how often each way is timed at each size.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    place = choose_device(device)
    sizes = [(32, H, 28, torch.float32) for H in (32, 64, 128)]
    if place.type == "cuda":
        types = (torch.bfloat16, torch.float32)
        sizes = [(128, 128, 28, dtype) for dtype in types]
        sizes += [(B, 128, side, dtype) for dtype in types for B in (1, 8, 32) for side in (64, 128, 256)]
    kept = Kept(
        out or result_of("grid", device), machine(place), {"threads": threads, "turns": turns}, resume, MEASURES
    )
    for B, H, side, dtype in sizes:
        name = f"B={B}, H={H}, {side} x {side}, {str(dtype).removeprefix('torch.')}"
        row = kept.part(name, partial(measured, B, 1, H, side, dtype, place, turns, pixels=side == 28))
        check(name, row, dtype)


if __name__ == "__main__":
    tyro.cli(main)
