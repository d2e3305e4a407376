"""Is multi-head attention slower than one head of the same width?

    python benchmarks/heads.py                             A = 1 .. 64 on this CPU; writes results/heads.json
    python benchmarks/heads.py --device cuda --dtype bfloat16 --lengths 512 4096 --batch 8 \
        --out benchmarks/results/heads_cuda.json

A layer of width A * D = 512 attends a text to itself, causal, with A = 1, 2, 4 .. 64 heads of width D = 512 / A, with
its four projections. The formulas say: as many multiplications for every A, and A T^2 exponentials, so A times as many.
Peer: torch's nn.MultiheadAttention with as many heads. All take turns within one run, so that the machine's noise meets
them alike; a time is the least of all turns, forward and forward with backward. On a CPU it is what one thread worked.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro
from torch import Tensor, nn

from porism import Attention
from porism.layers.attention.softmax.cost import cost
from porism.training.device import hardware, versions

WIDTH = 512
HEADS = (1, 2, 4, 8, 16, 32, 64)
RESULT = Path(__file__).parent / "results" / "heads.json"

Step = Callable[[], None]


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


def clocked(step: Step, device: str) -> float:
    """Seconds of one step: of a GPU until it is done; of a CPU those that one thread worked, whatever else runs."""
    if device != "cuda":
        began = time.process_time()
        step()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(T: int, batch: int, device: str, dtype: torch.dtype, turns: int) -> list[dict[str, float | int | str]]:
    """Milliseconds of every number of heads at one length, for ours and torch's."""
    x = torch.randn(batch, T, WIDTH, device=device, dtype=dtype)
    mask = nn.Transformer.generate_square_subsequent_mask(T, device=torch.device(device), dtype=dtype)
    timed: dict[tuple[str, int, str], Step] = {}
    for heads in HEADS:
        ours = Attention(WIDTH, heads, batch_first=True).to(device, dtype)
        theirs = nn.MultiheadAttention(WIDTH, heads, batch_first=True).to(device, dtype)
        for name, layer, masked in (("porism", ours, None), ("torch", theirs, mask)):
            timed |= {(name, heads, kind): step for kind, step in steps(layer, x, masked).items()}
    seconds: dict[tuple[str, int, str], list[float]] = {key: [] for key in timed}
    for turn in range(turns + 1):
        for key, step in timed.items():
            took = clocked(step, device)
            if turn:  # the first turn warms up
                seconds[key].append(took)
    rows: list[dict[str, float | int | str]] = []
    for heads in HEADS:
        sizes = {"A": heads, "B": batch, "D": WIDTH // heads, "T": T}
        row: dict[str, float | int | str] = {
            "T": T,
            "heads": heads,
            "head_width": WIDTH // heads,
            "flops": cost().at(**sizes)["flops"],
            "exponentials": batch * heads * T * T,
        }
        for name in ("porism", "torch"):
            for kind in ("forward", "with_backward"):
                row[f"{name}_{kind}_ms"] = round(1e3 * min(seconds[name, heads, kind]), 3)
        rows.append(row)
    return rows


def main(
    lengths: tuple[int, ...] = (128, 1024),
    batch: int = 4,
    device: str = "cpu",
    dtype: str = "float32",
    turns: int = 15,
    out: Path = RESULT,
) -> None:
    """Measure all lengths and write them as JSON."""
    torch.set_num_threads(1)
    rows = [row for T in lengths for row in measure(T, batch, device, getattr(torch, dtype), turns)]
    where = hardware(torch.device(device))
    result = {"hardware": where, "versions": versions(), "width": WIDTH, "batch": batch, "dtype": dtype, "rows": rows}
    out.write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        times = ", ".join(f"{key.removesuffix('_ms')} {row[key]}" for key in row if key.endswith("_ms"))
        print(f"T={row['T']} A={row['heads']}: {times}")


if __name__ == "__main__":
    tyro.cli(main)
