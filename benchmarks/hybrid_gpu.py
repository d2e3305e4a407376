"""How fast is the hybrid on a GPU, and from which length on does it beat full attention?

    python benchmarks/hybrid_gpu.py                          writes results/hybrid_gpu.json
    python benchmarks/hybrid_gpu.py --widths 16 --windows 64 --lengths 8192 --out result.json

Softmax within a window and the series of order 2 beyond it, measured as series_gpu.py measures the series alone. Peers
in the same run: that series, and torch's scaled_dot_product_attention (FlashAttention) at width 64. Before anything is
timed the kernels are held against float64 at an odd length, and two runs against each other, bit for bit.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from porism.layers.attention.hybrid import hybrid_attention, naive
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.pattern import CAUSAL
from porism.training.device import hardware, versions
from series_gpu import HEADS, TOKENS, VALUES, WORST_ERROR, error, full, inputs, series, timed

RESULT = Path(__file__).parent / "results" / "hybrid_gpu.json"


def hybrid(q: Tensor, k: Tensor, v: Tensor, W: int) -> Tensor:
    return hybrid_attention(q, k, v, window_size=W, pattern=CAUSAL)


def exact_hybrid(q: Tensor, k: Tensor, v: Tensor, W: int) -> Tensor:
    return naive.hybrid_attention(q, k, v, window_size=W, pattern=CAUSAL)


def main(
    widths: tuple[int, ...] = (16, 64),
    windows: tuple[int, ...] = (64, 256),
    lengths: tuple[int, ...] = (2048, 8192, 32768, 65536),
    turns: int = 30,
    out: Path = RESULT,
) -> None:
    """Check, measure, print and keep.

    widths: those of queries and keys.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    if kernels.kernel_in_use(inputs(1, 1, 16)[0]) != "triton":
        sys.exit("There are no kernels for this GPU.")
    errors = {
        str(dtype).removeprefix("torch."): {
            # Long enough for keys beyond the window and its chunk.
            f"D={D} W={W}": error(partial(hybrid, W=W), partial(exact_hybrid, W=W), D, dtype, T=2049)
            for D in widths
            for W in windows
        }
        for dtype in (torch.bfloat16, torch.float32)
    }
    print(json.dumps(errors), flush=True)
    rows = []
    for T in lengths:
        row: dict[str, Any] = {"T": T, "full": timed(full, inputs(T, TOKENS // T, 64), max(5, turns // 3))}
        for D in widths:
            leaves = inputs(T, TOKENS // T, D)
            row[f"series D={D}"] = timed(series, leaves, turns)
            row |= {f"hybrid D={D} W={W}": timed(partial(hybrid, W=W), leaves, turns) for W in windows}
        rows.append(row)
        print(json.dumps(row), flush=True)
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    kept = {**machine, "heads": HEADS, "values": VALUES, "tokens": TOKENS, "errors": errors}
    out.write_text(json.dumps({**kept, "results": rows}, indent=1) + "\n")
    for name, by_size in errors.items():
        if (worst := max(by_size.values())) > WORST_ERROR[name]:
            sys.exit(f"The error in {name} is {worst:.1e}, expected {WORST_ERROR[name]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
