"""What does one more token cost, the thousandth as much as the first?

    python benchmarks/decoding.py                                     two threads of this CPU, fp32, a minute
    python benchmarks/decoding.py --device cuda --out result.json

Peer: softmax attention with its cache, which grows. A text is decoded token by token by each mechanism: the time of a
token among the first hundred, in which a window fills up, the second and the last, the bytes of the state, and the
largest difference to what one pass over the whole text gives. Leaves with 1 where time or state of the window, the
series or the hybrid grow after the first hundred, or where decoding and the whole pass differ.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from porism.costing.predicting.clock import wait_for
from porism.layers import Pattern, hybrid_attention, softmax_attention, taylor_attention, window_attention
from porism.layers.attention.hybrid import hybrid_decode
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import softmax_decode
from porism.layers.attention.taylor import taylor_decode
from porism.layers.attention.window import window_decode
from porism.testing.gradients import relative_error
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "decoding.json"
A, D, H, W = 8, 16, 64, 64
PART = 100
"""Tokens whose times are taken together. The window is full before the second part begins."""

MOST_GROWTH = 1.25
"""Last time over second that still counts as constant: what other work on a machine adds by chance."""
MOST_DIFFERENCE = {"float64": 1e-12, "float32": 1e-5}


@dataclass(frozen=True)
class Mechanism:
    """The pass over a whole text, the one that goes on with it, what both are called with, and whether it may grow."""

    attend: Callable[..., Tensor]
    decode: Callable[..., tuple[Tensor, Any]]
    options: dict[str, Any]
    grows: bool = False


MECHANISMS = {
    "softmax": Mechanism(partial(softmax_attention, pattern=CAUSAL), softmax_decode, {}, grows=True),
    "window": Mechanism(window_attention, window_decode, {"pattern": Pattern("sliding", window_size=W)}),
    "series": Mechanism(partial(taylor_attention, pattern=CAUSAL), taylor_decode, {"order": 2}),
    "hybrid": Mechanism(partial(hybrid_attention, pattern=CAUSAL), hybrid_decode, {"order": 2, "window_size": W}),
}


def drawn(tokens: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Queries, keys and values: (1, A, T, D), (1, A, T, D), (1, A, T, H)."""
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, A, tokens, width, generator=draw).to(device, dtype) for width in (D, D, H)]


def bytes_of(state: Any) -> int:
    """What a state holds on to: its storages, each once."""
    storages = [part.untyped_storage() for part in state if isinstance(part, Tensor)]
    inner = sum(bytes_of(part) for part in state if isinstance(part, tuple))
    return inner + sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def decoded(mechanism: Mechanism, operands: list[Tensor]) -> tuple[Tensor, list[float], list[int]]:
    """The answer token by token, the seconds that each took, and the bytes of the state after it."""
    state, answers, seconds, sizes = None, [], [], []
    for q, k, v in zip(*(x.split(1, 2) for x in operands), strict=True):
        wait_for(q.device)
        start = time.perf_counter()
        answer, state = mechanism.decode(q, k, v, state, **mechanism.options)
        wait_for(q.device)
        seconds.append(time.perf_counter() - start)
        answers.append(answer)
        sizes.append(bytes_of(state))
    return torch.cat(answers, 2), seconds, sizes


def measured(name: str, tokens: int, repeats: int, device: torch.device) -> dict[str, Any]:
    mechanism = MECHANISMS[name]
    differences = {}
    for dtype in MOST_DIFFERENCE:
        operands = drawn(tokens, getattr(torch, dtype), device)
        whole = mechanism.attend(*operands, **mechanism.options)
        differences[dtype] = relative_error(decoded(mechanism, operands)[0], whole)
    runs = [decoded(mechanism, drawn(tokens, torch.float32, device)) for _ in range(repeats)]
    sizes = runs[0][2]
    # A token's time is the least of several: whatever else runs on the machine only ever adds.
    seconds = [min(times) for times in zip(*(run[1] for run in runs), strict=True)]
    first, second, last = (
        statistics.mean(seconds[part]) for part in (slice(PART), slice(PART, 2 * PART), slice(-PART, None))
    )
    return {
        "mechanism": name,
        "grows": mechanism.grows,
        "first_us": round(first * 1e6, 1),
        "second_us": round(second * 1e6, 1),
        "last_us": round(last * 1e6, 1),
        "growth": round(last / second, 3),
        "early_bytes": sizes[PART - 1],
        "last_bytes": sizes[-1],
        "differences": differences,
    }


def failures(row: dict[str, Any]) -> list[str]:
    """What is not as the documents say."""
    found = [
        f"{row['mechanism']}: {dtype} decoding is {difference:.1e} away from the whole pass"
        for dtype, difference in row["differences"].items()
        if not difference <= MOST_DIFFERENCE[dtype]
    ]
    if not row["grows"] and row["growth"] > MOST_GROWTH:
        found.append(f"{row['mechanism']}: a token takes {row['growth']} times as long at the end")
    if not row["grows"] and row["last_bytes"] != row["early_bytes"]:
        found.append(f"{row['mechanism']}: the state grew from {row['early_bytes']} to {row['last_bytes']} bytes")
    return found


@torch.no_grad()
def main(tokens: int = 1000, repeats: int = 5, threads: int = 2, device: str = "cpu", out: Path = RESULT) -> None:
    """Decode, print and keep.

    tokens: the length of the text.
    repeats: how often it is decoded for the times.
    out: where to keep the result as JSON.
    """
    if tokens < 3 * PART:
        sys.exit(f"{tokens} tokens have no first, second and last {PART}. Decode {3 * PART} or more.")
    torch.set_num_threads(threads)
    place = torch.device(device)
    rows = []
    for name in MECHANISMS:
        rows.append(measured(name, tokens, repeats, place))
        print(rows[-1], flush=True)
    sizes = {"T": tokens, "A": A, "D": D, "H": H, "W": W}
    machine = {"hardware": hardware(place), "versions": versions()}
    out.write_text(json.dumps({**machine, "sizes": sizes, "part": PART, "results": rows}, indent=1) + "\n")
    if wrong := [text for row in rows for text in failures(row)]:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
