"""Is multi-head attention slower than one head of the same width?

    python benchmarks/heads.py                             A = 1 .. 64 on this CPU; writes results/heads_x86.json
    python benchmarks/heads.py --device cuda --dtype bfloat16 --lengths 512 4096 --batch 8 --out heads_cuda.json

A layer of width A * D = 512 attends a text to itself, causal, with A = 1, 2, 4 .. 64 heads of width D = 512 / A, with
its four projections. The formulas say: as many multiplications for every A, and A T^2 exponentials, so A times as many.
Peer: torch's nn.MultiheadAttention with as many heads. All take turns within one run, so that the machine's noise meets
them alike: medians, forward and forward with backward. On a CPU a time is what one thread worked.
"""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn

from kept import Kept, machine, result_of
from porism import Attention
from porism.layers.attention.softmax.cost import cost
from turns import Step, in_turns, milliseconds, spread, times_faster, worked

MEASURES = ("layers/attention/softmax",)
WIDTH = 512
HEADS = (1, 2, 4, 8, 16, 32, 64)


def steps(layer: nn.Module, x: Tensor, mask: Tensor | None) -> dict[str, Step]:
    """The passes that are timed: forward alone, and with backward."""
    options = {"is_causal": True, "need_weights": False} | ({} if mask is None else {"attn_mask": mask})

    def forward() -> None:
        with torch.no_grad():
            layer(x, x, x, **options)

    def both() -> None:
        out, _ = layer(x, x, x, **options)
        out.sum().backward()
        layer.zero_grad()

    return {"forward": forward, "with_backward": both}


def measured(T: int, batch: int, device: str, dtype: torch.dtype, turns: int) -> list[dict[str, Any]]:
    """Milliseconds of every number of heads at one length, for ours and torch's."""
    x = torch.randn(batch, T, WIDTH, device=device, dtype=dtype)
    mask = nn.Transformer.generate_square_subsequent_mask(T, device=torch.device(device), dtype=dtype)
    timed: dict[str, Step] = {}
    for heads in HEADS:
        ours = Attention(WIDTH, heads, batch_first=True).to(device, dtype)
        theirs = nn.MultiheadAttention(WIDTH, heads, batch_first=True).to(device, dtype)
        for name, layer, masked in (("porism", ours, None), ("torch", theirs, mask)):
            timed |= {f"{name}, {heads}, {kind}": step for kind, step in steps(layer, x, masked).items()}
    times = in_turns(timed, turns, clock=milliseconds if device == "cuda" else worked)
    rows = []
    for heads in HEADS:
        sizes = {"A": heads, "B": batch, "D": WIDTH // heads, "T": T}
        row: dict[str, Any] = {"T": T, "heads": heads, "head_width": WIDTH // heads}
        row |= {"flops": cost().at(**sizes)["flops"], "exponentials": batch * heads * T * T}
        for name, kind in product(("porism", "torch"), ("forward", "with_backward")):
            own, single = times[f"{name}, {heads}, {kind}"], times[f"{name}, 1, {kind}"]
            row[f"{name}_{kind}_ms"] = spread(own)
            row[f"{name}_{kind}_to_one_head"] = times_faster(single, own)
        rows.append(row)
    return rows


def main(
    lengths: tuple[int, ...] = (128, 512, 1024),
    batch: int = 1,
    device: str = "cpu",
    dtype: str = "float32",
    turns: int = 9,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Measure all lengths and write them as JSON.

    resume: keep the parts that the result has, and measure the others.
    """
    torch.set_num_threads(1)
    settings = {"width": WIDTH, "batch": batch, "dtype": dtype, "turns": turns, "threads": 1}
    kept = Kept(out or result_of("heads", device), machine(torch.device(device)), settings, resume, MEASURES)
    for T in lengths:
        kept.part(f"T={T}", partial(measured, T, batch, device, getattr(torch, dtype), turns))


if __name__ == "__main__":
    tyro.cli(main)
