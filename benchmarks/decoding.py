"""What does one more token cost, the thousandth as much as the first?

    python benchmarks/decoding.py                                     two threads of this CPU, fp32, a minute
    python benchmarks/decoding.py --device cuda --out result.json

Peer: softmax attention over a cache, ours, which grows, and torch's scaled_dot_product_attention over one that is
allocated in full before. A text is decoded token by token by all of them in turns: the time of a token among the first
hundred, in which a window fills up, the second and the last, the bytes of the state, and the largest difference to what
one pass over the whole text gives. Leaves with 1 where time or state of the window, the series or the hybrid grow after
the first hundred, or where decoding and the whole pass differ.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kept import Kept, machine, result_of
from porism.costing.predicting.clock import wait_for
from porism.layers import Pattern, hybrid_attention, softmax_attention, taylor_attention, window_attention
from porism.layers.attention.hybrid import hybrid_decode
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import KVCache, softmax_decode
from porism.layers.attention.taylor import taylor_decode
from porism.layers.attention.window import window_decode
from porism.testing.gradients import relative_error
from turns import spread, times_faster

MEASURES = ("layers/attention/hybrid", "layers/attention/softmax", "layers/attention/taylor", "layers/attention/window")
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


class FullCache(NamedTuple):
    """Keys and values of all tokens to come, (1, A, T, D) and (1, A, T, H), and how many are there."""

    keys: Tensor
    values: Tensor
    length: int


def torch_decode(q: Tensor, k: Tensor, v: Tensor, state: FullCache | None, tokens: int) -> tuple[Tensor, FullCache]:
    """A step of decoding as users of torch write it: keys and values are written in place."""
    if state is None:
        keys, values = (x.new_empty(*x.shape[:2], tokens, x.shape[3]) for x in (k, v))
        state = FullCache(keys, values, 0)
    end = state.length + 1
    state.keys[:, :, state.length : end], state.values[:, :, state.length : end] = k, v
    out = scaled_dot_product_attention(q, state.keys[:, :, :end], state.values[:, :, :end])
    return out, state._replace(length=end)


def torch_attention(q: Tensor, k: Tensor, v: Tensor, **_: int) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


TORCH = "softmax, torch"
MECHANISMS = {
    TORCH: Mechanism(torch_attention, torch_decode, {}, grows=True),
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
    if isinstance(state, KVCache):
        # Who reads its tensors gets a copy, and leaves the memory that is to be measured.
        return state.nbytes
    storages = [part.untyped_storage() for part in state if isinstance(part, Tensor)]
    inner = sum(bytes_of(part) for part in state if isinstance(part, tuple | KVCache))
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


def difference(mechanism: Mechanism, tokens: int, dtype: str, device: torch.device) -> float:
    """The largest difference of decoding to one pass over the whole text."""
    operands = drawn(tokens, getattr(torch, dtype), device)
    return relative_error(decoded(mechanism, operands)[0], mechanism.attend(*operands, **mechanism.options))


def measured(tokens: int, turns: int, device: torch.device) -> list[dict[str, Any]]:
    """All mechanisms in turns."""
    ways = {
        name: replace(one, options={"tokens": tokens}) if name == TORCH else one for name, one in MECHANISMS.items()
    }
    operands, draw = drawn(tokens, torch.float32, device), random.Random(0)
    runs: dict[str, list[list[float]]] = {name: [] for name in ways}
    sizes = {}
    for turn in range(turns + 1):
        for name in draw.sample(list(ways), len(ways)):
            _, seconds, sizes[name] = decoded(ways[name], operands)
            if turn:  # the first one warms up
                runs[name].append(seconds)
    rows = []
    for name, mechanism in ways.items():
        ends = {"first_us": slice(PART), "second_us": slice(PART, 2 * PART), "last_us": slice(-PART, None)}
        # The median of a part's tokens in each turn: what else runs on the machine hits single tokens.
        times = {end: [1e6 * statistics.median(run[part]) for run in runs[name]] for end, part in ends.items()}
        rows.append(
            {
                "mechanism": name,
                "grows": mechanism.grows,
                **{end: spread(taken) for end, taken in times.items()},
                "growth": times_faster(times["second_us"], times["last_us"])["median"],
                "early_bytes": sizes[name][PART - 1],
                "last_bytes": sizes[name][-1],
                "differences": {dtype: difference(mechanism, tokens, dtype, device) for dtype in MOST_DIFFERENCE},
            }
        )
    return rows


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
def main(
    tokens: int = 1000,
    turns: int = 7,
    threads: int = 2,
    device: str = "cpu",
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Decode, print and keep.

    tokens: the length of the text.
    turns: how often it is decoded for the times.
    resume: keep the result that is there.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    if tokens < 3 * PART:
        sys.exit(f"{tokens} tokens have no first, second and last {PART}. Decode {3 * PART} or more.")
    torch.set_num_threads(threads)
    place = torch.device(device)
    settings = {"T": tokens, "A": A, "D": D, "H": H, "W": W, "part": PART, "turns": turns, "threads": threads}
    kept = Kept(out or result_of("decoding", device), machine(place), settings, resume, MEASURES)
    rows = kept.part("mechanisms", lambda: measured(tokens, turns, place))
    if wrong := [text for row in rows for text in failures(row)]:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
