"""How much faster is a window than full attention on a GPU?

    python benchmarks/window_gpu.py                          writes results/window_gpu.json
    python benchmarks/window_gpu.py --lengths 16384 --out result.json

Peers: torch's scaled_dot_product_attention over all keys before, and its FlexAttention with a mask of the same window,
compiled. bfloat16, 16 heads of width 64, causal, 65,536 tokens in all; milliseconds by CUDA events, medians. Before it
is timed the kernel is held against float64 at an odd length.
"""

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window import window_attention
from porism.layers.attention.window.naive import window_attention as naive
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "window_gpu.json"
HEADS, WIDTH, TOKENS = 16, 64, 65_536
WORST_ERROR = {"bfloat16": 1e-2, "float32": 1e-5}

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs(T: int, B: int, dtype: torch.dtype) -> list[Any]:
    draw = torch.Generator("cuda").manual_seed(0)
    sizes = (B, HEADS, T, WIDTH)
    return [torch.randn(sizes, device="cuda", dtype=dtype, generator=draw).requires_grad_() for _ in range(3)]


def error(dtype: torch.dtype, W: int, T: int = 1025) -> float:
    """The largest relative error of the answer and the gradients against float64."""
    leaves = inputs(T, 1, dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    pattern = Pattern("sliding", window_size=W)
    found = window_attention(*leaves, pattern=pattern)
    expected = naive(exact[0], exact[1], exact[2], pattern)
    weights = torch.randn_like(expected)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad(found, leaves, weights.to(dtype)),
        torch.autograd.grad(expected, exact, weights),
        strict=True,
    )
    return max(float((one.double() - other).norm() / other.norm()) for one, other in pairs)


def milliseconds(attend: Attend, leaves: list[Tensor], backward: bool, turns: int) -> float:
    def step() -> None:
        out = attend(*leaves)
        if backward:
            torch.autograd.grad(out, leaves, weights)

    weights = torch.ones_like(leaves[0])
    times: list[float] = []
    with torch.set_grad_enabled(backward):
        for turn in range(turns + 3):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step()
            end.record()
            end.synchronize()
            if turn >= 3:
                times.append(start.elapsed_time(end))
    return statistics.median(times)


def flexible(W: int, T: int) -> Attend:
    """torch's FlexAttention with the same window."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def near(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < W)

    mask = create_block_mask(near, None, None, T, T, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def measured(T: int, windows: tuple[int, ...], turns: int, flex: bool) -> list[dict[str, Any]]:
    leaves = inputs(T, TOKENS // T, torch.bfloat16)
    rows = []

    def time(attend: Attend) -> dict[str, float]:
        passes = {"forward_ms": False, "both_ms": True}
        return {name: round(milliseconds(attend, leaves, both, turns), 4) for name, both in passes.items()}

    full = time(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True))
    for W in windows:
        pattern = Pattern("sliding", window_size=W)
        row: dict[str, Any] = {"T": T, "W": W, "full": full}
        row["window"] = time(partial(window_attention, pattern=pattern))
        row["flex"] = time(flexible(W, T)) if flex else None
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main(
    lengths: tuple[int, ...] = (2048, 16384, 65536),
    windows: tuple[int, ...] = (64, 256, 1024),
    turns: int = 20,
    flex: bool = True,
    out: Path = RESULT,
) -> None:
    """Check, measure, print and keep.

    flex: measure FlexAttention too, which takes some seconds to compile at each size.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    errors = {str(dtype).removeprefix("torch."): error(dtype, 100) for dtype in (torch.bfloat16, torch.float32)}
    print(json.dumps(errors), flush=True)
    rows = [row for T in lengths for row in measured(T, windows, turns, flex)]
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    kept = {**machine, "heads": HEADS, "width": WIDTH, "tokens": TOKENS, "errors": errors, "results": rows}
    out.write_text(json.dumps(kept, indent=1) + "\n")
    if wrong := [name for name, found in errors.items() if found > WORST_ERROR[name]]:
        sys.exit(f"The error in {wrong[0]} is {errors[wrong[0]]:.1e}, expected {WORST_ERROR[wrong[0]]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
