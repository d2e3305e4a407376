"""How fast is the series of order 2 on a GPU, and from which length on does it beat full attention?

    python benchmarks/series_gpu.py                          writes results/series_gpu.json
    python benchmarks/series_gpu.py --widths 16 --lengths 8192 --out result.json

Peer: torch's scaled_dot_product_attention (FlashAttention) at width 64 in the same run. bfloat16, causal, 16 heads,
values of width 64, 65,536 tokens in all; milliseconds by CUDA events, medians of calls that are queued one after the
other. Before anything is timed the kernels are held against float64 at an odd length, and two runs against each other,
bit for bit. Decoding is a captured graph of one step for a batch of 64.
"""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor import TaylorState, naive, taylor_attention, taylor_decode
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "series_gpu.json"
HEADS, VALUES, TOKENS = 16, 64, 65_536
WORST_ERROR = {"bfloat16": 1e-2, "float32": 1e-5}

Step = Callable[[], Any]
Attend = Callable[..., Tensor]


def inputs(T: int, B: int, D: int, dtype: torch.dtype = torch.bfloat16, heads: int = HEADS) -> list[Tensor]:
    draw = torch.Generator("cuda").manual_seed(0)
    drawn = (torch.randn(B, heads, T, width, device="cuda", generator=draw) for width in (D, D, VALUES))
    return [x.to(dtype).requires_grad_() for x in drawn]


def series(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return taylor_attention(q, k, v, pattern=CAUSAL)


def full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def exact_series(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return naive.taylor_attention(q, k, v, order=2, pattern=CAUSAL)


def error(attend: Attend, oracle: Attend, D: int, dtype: torch.dtype, T: int = 1025) -> float:
    """The largest relative error of the answer and the gradients against float64; two runs must agree in every bit."""
    leaves = inputs(T, 1, D, dtype, heads=2)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    answer = oracle(*exact)
    weights = torch.randn_like(answer)

    def passed() -> list[Tensor]:
        out = attend(*leaves)
        return [out.detach(), *torch.autograd.grad(out, leaves, weights.to(dtype))]

    found, again = passed(), passed()
    if not all(torch.equal(one, other) for one, other in zip(found, again, strict=True)):
        sys.exit(f"D={D}, {dtype}: two runs differ.")
    expected = [answer.detach(), *torch.autograd.grad(answer, exact, weights)]
    return max(float((one.double() - other).norm() / other.norm()) for one, other in zip(found, expected, strict=True))


def milliseconds(step: Step, turns: int) -> float:
    """The median of calls that are queued without waiting, so that the GPU is timed and not the host."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(turns)]
    for _ in range(3):
        step()
    for start, end in events:
        start.record()
        step()
        end.record()
    torch.cuda.synchronize()
    times: list[float] = [start.elapsed_time(end) for start, end in events]
    return statistics.median(times)


def timed(attend: Attend, leaves: list[Tensor], turns: int) -> dict[str, float]:
    weights = torch.ones(*leaves[0].shape[:3], VALUES, device="cuda", dtype=leaves[0].dtype)
    with torch.no_grad():
        forward = milliseconds(lambda: attend(*leaves), turns)
    both = milliseconds(lambda: torch.autograd.grad(attend(*leaves), leaves, weights), turns)
    return {"forward_ms": round(forward, 4), "both_ms": round(both, 4)}


def decoding(D: int, turns: int, B: int = 64) -> float:
    """Microseconds of one step, as a captured graph."""
    q, k, v = (x.detach() for x in inputs(1, B, D))
    M = 1 + D + (D // 2 + 1) * D
    state = TaylorState(
        torch.rand(B, HEADS, M, VALUES, device="cuda"), torch.rand(B, HEADS, M, device="cuda").add_(1.0)
    )
    with torch.no_grad():
        for _ in range(3):
            taylor_decode(q, k, v, state)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            taylor_decode(q, k, v, state)
    return round(1e3 * milliseconds(graph.replay, turns), 2)


def main(
    widths: tuple[int, ...] = (16, 32, 64),
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
    checked = {torch.bfloat16: widths, torch.float32: (16,)}
    errors = {
        str(dtype).removeprefix("torch."): {D: error(series, exact_series, D, dtype) for D in some}
        for dtype, some in checked.items()
    }
    print(json.dumps(errors), flush=True)
    rows = []
    for T in lengths:
        row: dict[str, Any] = {"T": T, "full": timed(full, inputs(T, TOKENS // T, 64), max(5, turns // 3))}
        row |= {f"series D={D}": timed(series, inputs(T, TOKENS // T, D), turns) for D in widths}
        rows.append(row)
        print(json.dumps(row), flush=True)
    decoded = {D: decoding(D, 10 * turns) for D in widths}
    print(json.dumps({"decoding_us": decoded}), flush=True)
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    kept = {**machine, "heads": HEADS, "values": VALUES, "tokens": TOKENS, "errors": errors}
    out.write_text(json.dumps({**kept, "results": rows, "decoding_us": decoded}, indent=1) + "\n")
    for dtype, by_width in errors.items():
        if (worst := max(by_width.values())) > WORST_ERROR[dtype]:
            sys.exit(f"The error in {dtype} is {worst:.1e}, expected {WORST_ERROR[dtype]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
