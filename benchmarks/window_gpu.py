"""How much faster is a window than other kernels for it, and than full attention, on a GPU?

    python benchmarks/window_gpu.py                                   writes results/window_gpu.json
    python benchmarks/window_gpu.py --lengths 16384 --resume          a length more

Peers with the same window: torch's FlexAttention with a block mask, compiled for each size, and flash-attn's
`window_size` where the package is installed; and torch's scaled_dot_product_attention over all keys before. bfloat16,
16 heads of width 64, causal, 65,536 tokens in all; milliseconds of the GPU by CUDA events, all ways in turns. Before it
is timed the kernel is held against float64 at an odd length.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kept import Kept, machine
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window import window_attention
from porism.layers.attention.window.naive import window_attention as naive
from turns import Step, in_turns_on_gpu, spread, times_faster

MEASURES = ("layers/attention/window",)
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


def passes(attend: Attend, leaves: list[Tensor]) -> dict[str, Step]:
    """Forward alone, and with backward."""
    weights = torch.ones_like(leaves[0])

    @torch.no_grad()
    def forward() -> None:
        attend(*leaves)

    def both() -> None:
        torch.autograd.grad(attend(*leaves), leaves, weights)

    return {"forward": forward, "both": both}


def flexible(W: int, T: int, mode: str) -> Attend:
    """torch's FlexAttention with the same window."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def near(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < W)

    torch._dynamo.reset()  # or earlier sizes count as recompilations, of which only eight are made
    mask = create_block_mask(near, None, None, T, T, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False, mode=mode)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def flash(W: int) -> Attend | None:
    """flash-attn's own window, None where it is not installed. It takes (B, T, A, D)."""
    try:
        from flash_attn import flash_attn_func
    except ImportError:
        return None

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2) for x in (q, k, v))
        out: Tensor = flash_attn_func(*turned, causal=True, window_size=(W - 1, 0))
        return out.transpose(1, 2)

    return attend


def full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def measured(T: int, W: int, turns: int, flex_mode: str) -> dict[str, Any]:
    """All ways at one size, and how they compare: to the fastest with the same window, and to full attention."""
    leaves = inputs(T, TOKENS // T, torch.bfloat16)
    ways: dict[str, Attend] = {"window": partial(window_attention, pattern=Pattern("sliding", window_size=W))}
    ways |= {"flex": flexible(W, T, flex_mode), "full": full}
    if peer := flash(W):
        ways["flash-attn"] = peer
    steps = {name: passes(attend, leaves) for name, attend in ways.items()}
    row: dict[str, Any] = {"T": T, "W": W, "ms": {name: {} for name in ways}, "compared": {}}
    for kind in ("forward", "both"):
        times = in_turns_on_gpu({name: found[kind] for name, found in steps.items()}, turns)
        for name, taken in times.items():
            row["ms"][name][kind] = spread(taken)
        best = min((name for name in ways if name not in ("window", "full")), key=lambda name: median(times[name]))
        row["compared"][kind] = {
            "best_peer": best,
            "times_faster": times_faster(times["window"], times[best]),
            "times_faster_than_full": times_faster(times["window"], times["full"]),
        }
    return row


def main(
    lengths: tuple[int, ...] = (2048, 16384, 65536),
    windows: tuple[int, ...] = (64, 256, 1024),
    turns: int = 20,
    flex_mode: Literal["default", "max-autotune-no-cudagraphs"] = "default",
    resume: bool = False,
    out: Path = RESULT,
) -> None:
    """Check, measure, print and keep.

    flex_mode: how FlexAttention is compiled; it takes some seconds at each size, tuned a minute.
    resume: keep the parts that the result has, and measure the others.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    settings = {"heads": HEADS, "width": WIDTH, "tokens": TOKENS, "turns": turns, "flex_mode": flex_mode}
    kept = Kept(out, machine(torch.device("cuda"), ["triton", "flash-attn"]), settings, resume, MEASURES)
    errors = kept.part("errors", lambda: {name: error(getattr(torch, name), 100) for name in WORST_ERROR})
    for T, W in product(lengths, windows):
        kept.part(f"T={T}, W={W}", partial(measured, T, W, turns, flex_mode))
    if wrong := [name for name, found in errors.items() if found > WORST_ERROR[name]]:
        sys.exit(f"The error in {wrong[0]} is {errors[wrong[0]]:.1e}, expected {WORST_ERROR[wrong[0]]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
