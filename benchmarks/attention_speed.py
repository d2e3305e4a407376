"""How much faster are windows and the series than full attention on two cores, and is their memory linear?

    python benchmarks/attention_speed.py                           all of it; writes results/attention_speed_x86.json
    python benchmarks/attention_speed.py --lengths 16384 --resume  a length more

Peers: torch's scaled_dot_product_attention, causal; for the window the package local-attention with an exact window,
blocks of queries in plain torch (each against its own and the previous block of keys), and a dense mask as far as it is
reasonable. Forward and backward, fp32, 8 heads; queries, keys and values of width 64, the same for all, and beside them
the series with keys of width 16, which is another model. All take turns within one run. The long run is a process of
its own, whose peak of memory is the system's.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from kept import Kept, machine, result_of
from memory import peak_bytes
from porism.layers import Pattern, taylor_attention, window_attention
from turns import Step, in_turns, spread, times_faster

MEASURES = ("layers/attention/taylor", "layers/attention/window")
HEADS, WINDOW, WIDTH, NARROW = 8, 64, 64, 16
SLIDING = Pattern("sliding", window_size=WINDOW)
CAUSAL = Pattern("causal")
LONGEST_MASK = 4096
"""A dense mask takes quadratic time: beyond this nobody would use it."""

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs(T: int, D: int, H: int = WIDTH) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, T, width, generator=draw).mul_(0.3).requires_grad_() for width in (D, D, H)]


def step(attend: Attend, leaves: list[Tensor]) -> Step:
    def run() -> None:
        out = attend(*leaves)
        torch.autograd.grad(out, leaves, torch.ones_like(out))

    return run


def full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return window_attention(q, k, v, pattern=SLIDING)


def series(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return taylor_attention(q, k, v, pattern=CAUSAL)


def by_blocks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same window in plain torch: a block of WINDOW queries attends to its own keys and to those before it."""
    B, A, T, D = q.shape
    blocks = T // WINDOW
    query = q.reshape(B, A * blocks, WINDOW, D)

    def with_previous(x: Tensor) -> Tensor:
        parts = pad(x, (0, 0, WINDOW, 0)).reshape(B, A, blocks + 1, WINDOW, -1)
        return torch.cat([parts[:, :, :-1], parts[:, :, 1:]], 3).reshape(B, A * blocks, 2 * WINDOW, -1)

    i, j = torch.arange(WINDOW)[:, None], torch.arange(2 * WINDOW) - WINDOW
    near = (j <= i) & (i - j < WINDOW)
    first = near & (j >= 0)  # nothing stands before the first block
    mask = torch.where((torch.arange(A * blocks) % blocks == 0)[:, None, None], first, near)
    return scaled_dot_product_attention(query, with_previous(k), with_previous(v), attn_mask=mask).reshape(v.shape)


def local_attention() -> Attend | None:
    """The peer, as its users call it: it counts the keys before a query's own, so its window holds WINDOW + 1."""
    try:
        from local_attention import LocalAttention
    except ImportError:
        return None
    peer = LocalAttention(
        window_size=WINDOW,
        causal=True,
        look_backward=1,
        exact_windowsize=True,
        autopad=True,
        use_rotary_pos_emb=False,
        scale=None,
    )
    return lambda q, k, v: peer(q, k, v)


def windows(T: int) -> dict[str, Attend]:
    """Every way to attend within the window."""
    found: dict[str, Attend] = {"window": window, "blocks in torch": by_blocks}
    if peer := local_attention():
        found["local-attention"] = peer
    if T <= LONGEST_MASK:
        found["dense mask"] = partial(scaled_dot_product_attention, attn_mask=SLIDING.mask(T, T))
    return found


def measured(T: int, turns: int) -> dict[str, Any]:
    """Times of all ways at one length, and the fair ratios: at equal width, to the fastest peer."""
    wide, narrow = inputs(T, WIDTH), inputs(T, NARROW)
    steps = {name: step(attend, wide) for name, attend in windows(T).items()}
    peers = [name for name in steps if name != "window"]
    steps |= {"full": step(full, wide), "series": step(series, wide)}
    steps[f"series, keys of {NARROW}"] = step(series, narrow)
    times = in_turns(steps, turns)
    result: dict[str, Any] = {name: spread(taken) for name, taken in times.items()}
    best = min(peers, key=lambda name: result[name]["median"])
    return {
        "T": T,
        "ms": result,
        "window": {"best_peer": best, "times_faster": times_faster(times["window"], times[best])},
        "series": {"best_peer": "full", "times_faster": times_faster(times["series"], times["full"])},
    }


def check(T: int = 4 * WINDOW) -> None:
    """Every way to attend within the window gives the same, or nothing is timed."""
    q, k, v = (x.detach() for x in inputs(T, WIDTH))
    for name, attend in windows(T).items():
        keys = WINDOW + 1 if name == "local-attention" else WINDOW
        mask = Pattern("sliding", window_size=keys).mask(T, T)
        expected = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        difference = float((attend(q, k, v) - expected).norm() / expected.norm())
        if difference > 1e-5:
            sys.exit(f"{name} is {difference:.1e} away from softmax with a mask of the window.")


def long_run(way: str, T: int, threads: int) -> dict[str, float]:
    """One pass forward and backward at a great length, in a fresh process."""
    script = f"import attention_speed as a; a.once({way!r}, {T}, {threads})"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def once(way: str, T: int, threads: int) -> None:
    torch.set_num_threads(threads)
    attend = {"window": window, "series": series}[way]
    start = time.perf_counter()
    step(attend, inputs(T, WIDTH))()
    print(json.dumps({"seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}))


def main(
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384),
    longest: int = 131072,
    turns: int = 5,
    threads: int = 2,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    turns: how often each way is timed at each length.
    longest: the length at which memory is measured; 0 for none.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    check()
    settings = {"heads": HEADS, "window": WINDOW, "width": WIDTH, "narrow": NARROW, "turns": turns, "threads": threads}
    kept = Kept(
        out or result_of("attention_speed"),
        machine(torch.device("cpu"), ["local-attention"]),
        settings,
        resume,
        MEASURES,
    )
    for T in lengths:
        kept.part(f"T={T}", partial(measured, T, turns))
    for way in ("window", "series") if longest else ():
        kept.part(f"memory: {way}, T={longest}", partial(long_run, way, longest, threads))


if __name__ == "__main__":
    tyro.cli(main)
