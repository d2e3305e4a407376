"""How fast is the hybrid on a GPU, and from which length on does it beat full attention?

    python benchmarks/hybrid_gpu.py                          writes results/hybrid_gpu.json
    python benchmarks/hybrid_gpu.py --widths 16 --windows 64 --lengths 8192 --out result.json

Softmax within a window and the series of order 2 beyond it, measured as series_gpu.py measures the series alone. Peers
in the same run: that series, and torch's scaled_dot_product_attention (FlashAttention) at width 64. Before anything is
timed the kernels are held against float64 at two odd lengths, and two runs against each other, bit for bit.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from kept import Kept, machine
from porism.layers.attention.hybrid import hybrid_attention, naive
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.pattern import CAUSAL
from series_gpu import HEADS, TOKENS, VALUES, WORST_ERROR, Attend, compared, error, full, inputs, series

MEASURES = ("layers/attention/hybrid", "layers/attention/taylor")
RESULT = Path(__file__).parent / "results" / "hybrid_gpu.json"


def hybrid(q: Tensor, k: Tensor, v: Tensor, W: int) -> Tensor:
    return hybrid_attention(q, k, v, window_size=W, pattern=CAUSAL)


def exact_hybrid(q: Tensor, k: Tensor, v: Tensor, W: int) -> Tensor:
    return naive.hybrid_attention(q, k, v, window_size=W, pattern=CAUSAL)


def measured(T: int, widths: tuple[int, ...], windows: tuple[int, ...], turns: int) -> dict[str, Any]:
    ways: dict[str, tuple[Attend, list[Tensor]]] = {"full": (full, inputs(T, TOKENS // T, VALUES))}
    for D in widths:
        leaves = inputs(T, TOKENS // T, D)
        ways[f"series D={D}"] = (series, leaves)
        ways |= {f"hybrid D={D} W={W}": (partial(hybrid, W=W), leaves) for W in windows}
    return {"T": T, **compared(ways, turns)}


def main(
    widths: tuple[int, ...] = (64, 16),
    windows: tuple[int, ...] = (64, 256),
    lengths: tuple[int, ...] = (2048, 8192, 32768, 65536),
    turns: int = 20,
    resume: bool = False,
    out: Path = RESULT,
) -> None:
    """Check, measure, print and keep.

    widths: those of queries and keys.
    resume: keep the parts that the result has, and measure the others.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    if kernels.kernel_in_use(inputs(1, 1, 16)[0]) != "triton":
        sys.exit("There are no kernels for this GPU.")
    settings = {
        "heads": HEADS,
        "values": VALUES,
        "tokens": TOKENS,
        "widths": widths,
        "windows": windows,
        "turns": turns,
    }
    kept = Kept(out, machine(torch.device("cuda"), ["triton"]), settings, resume, MEASURES)
    errors = kept.part(
        "errors",
        lambda: {
            str(dtype).removeprefix("torch."): {
                # Long enough for keys beyond the window and its chunk.
                f"D={D} W={W}": error(partial(hybrid, W=W), partial(exact_hybrid, W=W), D, dtype)
                for D in widths
                for W in windows
            }
            for dtype in (torch.bfloat16, torch.float32)
        },
    )
    for T in lengths:
        kept.part(f"T={T}", partial(measured, T, widths, windows, turns))
    for name, by_size in errors.items():
        if (worst := max(by_size.values())) > WORST_ERROR[name]:
            sys.exit(f"The error in {name} is {worst:.1e}, expected {WORST_ERROR[name]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
