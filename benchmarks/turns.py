"""Times of several ways to compute the same, taken in turns, and how far they spread."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Step = Callable[[], Any]
Clock = Callable[[Step], float]


def milliseconds(step: Step) -> float:
    """One step by the clock on the wall; of a GPU until it is done."""
    begin = time.perf_counter()
    step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin)


def worked(step: Step) -> float:
    """Milliseconds that one thread of a CPU worked, whatever else runs."""
    began = time.process_time()
    step()
    return 1e3 * (time.process_time() - began)


def in_turns(
    steps: Mapping[str, Step], turns: int, warm_up: int = 1, clock: Clock = milliseconds
) -> dict[str, list[float]]:
    """A time of every step in every turn, in an order drawn anew for each turn.

    What else runs on the machine meets all alike, and what ran before leaves caches and allocator in another state.
    """
    draw, names = random.Random(0), list(steps)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + turns):
        for name in draw.sample(names, len(names)):
            taken = clock(steps[name])
            if turn >= warm_up:
                times[name].append(taken)
    return times


def in_turns_on_gpu(steps: Mapping[str, Step], turns: int, warm_up: int = 3) -> dict[str, list[float]]:
    """The same by CUDA events, without the host: the steps of a turn are queued while the GPU is kept waiting."""
    draw, names = random.Random(0), list(steps)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + turns):
        order = draw.sample(names, len(names))
        events = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in order}
        torch.cuda._sleep(20_000_000)  # some 10 ms
        for name in order:
            events[name][0].record()
            steps[name]()
            events[name][1].record()
        torch.cuda.synchronize()
        if turn >= warm_up:
            for name, (start, end) in events.items():
                times[name].append(start.elapsed_time(end))
    return times


def captured(step: Step) -> Step:
    """The step as a CUDA graph, replayed."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def spread(values: Sequence[float], digits: int = 5) -> dict[str, float]:
    """Median, first and third quartile, and of how many.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'low': 1.5, 'high': 2.5, 'turns': 3}
    """
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    ends = {"median": middle, "low": low, "high": high}
    return {name: float(f"{value:.{digits}g}") for name, value in ends.items()} | {"turns": len(values)}


def times_faster(ours: Sequence[float], peer: Sequence[float]) -> dict[str, float]:
    """The peer's median over ours, and the quartiles of that ratio turn by turn.

    >>> times_faster([1.0, 2.0, 1.0], [2.0, 2.0, 3.0])
    {'median': 2.0, 'low': 1.5, 'high': 2.5, 'turns': 3}
    """
    ratios = spread([theirs / own for theirs, own in zip(peer, ours, strict=True)], digits=3)
    return ratios | {"median": float(f"{statistics.median(peer) / statistics.median(ours):.3g}")}
