"""How much faster are windows and the series than full attention on two cores, and is their memory linear?

    python benchmarks/attention_speed.py                  all of it, some minutes; writes results/attention_speed.json
    python benchmarks/attention_speed.py --lengths 4096 --out speed.json

Peers: torch's scaled_dot_product_attention, causal at width 64 and with a dense mask of the window, and the package
local-attention with an exact window. Forward and backward, fp32, 8 heads. All take turns within one run, so that the
machine's noise meets them alike; a time is the median over turns. The long run is a process of its own, whose peak of
memory is the system's.
"""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from memory import peak_bytes
from porism.layers import Pattern, taylor_attention, window_attention
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "attention_speed.json"
HEADS, WINDOW = 8, 64
SLIDING = Pattern("sliding", window_size=WINDOW)
CAUSAL = Pattern("causal")

Step = Callable[[], None]


def inputs(T: int, D: int, H: int = 64) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, T, width, generator=draw).mul_(0.3).requires_grad_() for width in (D, D, H)]


def step(attend: Callable[..., Tensor], leaves: list[Tensor]) -> Step:
    def run() -> None:
        out = attend(*leaves)
        torch.autograd.grad(out, leaves, torch.ones_like(out))

    return run


def local_attention() -> Callable[..., Tensor] | None:
    """The peer, whose window also holds WINDOW keys; None where it is not installed."""
    try:
        from local_attention import LocalAttention
    except ImportError:
        return None
    # It counts the keys before a query's own, ours counts its own too.
    peer = LocalAttention(window_size=WINDOW, causal=True, look_backward=1, exact_windowsize=True, autopad=True)
    return lambda q, k, v: peer(q, k, v)


def ways(T: int) -> dict[str, Step]:
    """What is compared at one length."""
    wide, narrow = inputs(T, 64), inputs(T, 16)
    found = {
        "full": step(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True), wide),
        "window": step(lambda q, k, v: window_attention(q, k, v, pattern=SLIDING), wide),
        "series": step(lambda q, k, v: taylor_attention(q, k, v, pattern=CAUSAL), narrow),
    }
    mask = SLIDING.mask(T, T)
    found["dense mask"] = step(lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=mask), wide)
    if peer := local_attention():
        found["local-attention"] = step(peer, wide)
    return found


def medians(steps: dict[str, Step], turns: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, run in steps.items():
            start = time.perf_counter()
            run()
            if turn:  # the first one warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def long_run(way: str, T: int) -> dict[str, float]:
    """One pass forward and backward at a great length, in a fresh process."""
    script = f"import attention_speed as a; a.once({way!r}, {T})"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def once(way: str, T: int) -> None:
    torch.set_num_threads(2)
    D = 16 if way == "series" else 64
    attend = {
        "window": lambda q, k, v: window_attention(q, k, v, pattern=SLIDING),
        "series": lambda q, k, v: taylor_attention(q, k, v, pattern=CAUSAL),
    }[way]
    start = time.perf_counter()
    step(attend, inputs(T, D))()
    print(json.dumps({"seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}))


def main(
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384),
    longest: int = 131072,
    turns: int = 5,
    threads: int = 2,
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    turns: how often each way is timed at each length.
    longest: the length at which memory is measured.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    rows = []
    for T in lengths:
        times = medians(ways(T), turns)
        row = {"T": T, **{f"{name}_ms": round(1e3 * seconds, 2) for name, seconds in times.items()}}
        row["window_over_dense_mask"] = round(times["dense mask"] / times["window"], 2)
        if "local-attention" in times:
            row["window_over_local_attention"] = round(times["local-attention"] / times["window"], 2)
        row["series_over_full"] = round(times["full"] / times["series"], 2)
        print(json.dumps(row), flush=True)
        rows.append(row)
    memory = {way: long_run(way, longest) for way in ("window", "series")}
    print(json.dumps(memory))
    machine = {"hardware": hardware(torch.device("cpu")), "versions": versions(), "machine": platform.machine()}
    kept = {**machine, "heads": HEADS, "window": WINDOW, "results": rows, "longest": longest, "memory": memory}
    (out or RESULT).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
