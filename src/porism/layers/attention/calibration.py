"""What a unit of each kind of work takes on a device, measured once and kept.

Seconds are taken to be a sum over kinds of work, amount times rate. Rates are those that fit the times of a few calls
best: by least squares of the relative error, none of them below zero.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import torch

from porism.costing.predicting import kept
from porism.costing.predicting.clock import Timing, measure, using_threads
from porism.layers.attention.examples import examples
from porism.layers.attention.methods import Options, Way
from porism.layers.attention.request import Question
from porism.layers.attention.work import Work, work
from porism.version import __version__

BUDGET = 0.01
"""Seconds of timing for each call that is timed."""

PATIENCE = 3.0
"""Seconds after which calls that other work has disturbed are not timed again, and larger ones not tried."""

FEWEST = 4
"""Calls that are timed whatever they take."""

DISTURBED = 0.1
"""The share of disturbed calls above which what was measured is used this once and not kept."""


class Rates(msgspec.Struct, frozen=True):
    """Seconds of a unit of work of a kind of call: forward alone, and both passes together."""

    forward: dict[str, float]
    both: dict[str, float]
    date: str
    disturbed: float = 0.0
    """The share of the calls that could only be timed while other work disturbed them."""

    @property
    def is_calm(self) -> bool:
        return self.disturbed <= DISTURBED

    def seconds(self, amounts: Work, backward: bool) -> float:
        rates = self.both if backward else self.forward
        return sum(amount * rates.get(kind, 0.0) for kind, amount in amounts.items())


class Calibration(msgspec.Struct):
    """The rates of every kind of call that was asked for so far, by one version of this package."""

    version: str
    rates: dict[str, Rates]


_known: dict[Path, Calibration] = {}


def rates(way: Way, asked: Question, refresh: bool = False) -> Rates | None:
    """Those of the asked kind on the asked device: known, kept, or measured now; None where that cannot be."""
    device = torch.device(asked.device)
    if device.type != "cpu" and not (device.type == "cuda" and torch.cuda.is_available()):
        return None
    file = kept.place("mechanisms", device, asked.dtype, asked.threads)
    kind = way.kind(asked)
    if not refresh and (found := _calibration(file).rates.get(kind)) is not None:
        return found
    if asked.hollow:
        return None
    # In a thread of its own, since counting, tracing and autocast are matters of the one that asks.
    with ThreadPoolExecutor(1) as apart:
        found = apart.submit(_measured, way, kind, asked).result()
    _calibration(file).rates[kind] = found
    if found.is_calm:
        # Others may have kept further kinds meanwhile.
        kept.write(file, Calibration(__version__, _read(file).rates | {kind: found}))
    return found


def _calibration(file: Path) -> Calibration:
    if file not in _known:
        _known[file] = _read(file)
    return _known[file]


def _read(file: Path) -> Calibration:
    found = kept.read(file, Calibration)
    return found if found is not None and found.version == __version__ else Calibration(__version__, {})


def _measured(way: Way, kind: str, asked: Question) -> Rates:
    timings: list[Timing] = []

    def found(backward: bool) -> dict[str, float]:
        questions = examples(kind, asked.device, dtype=asked.dtype, threads=asked.threads, backward=backward)
        timed = _timed(way, questions)
        timings.extend(timed)
        amounts = [work(way.name, question) for question in questions[: len(timed)]]
        return fit(amounts, [timing.low for timing in timed])

    with using_threads(asked.threads):
        forward, both = found(backward=False), found(backward=True)
    disturbed = sum(timing.disturbed for timing in timings) / len(timings)
    return Rates(forward, both, date.today().isoformat(), disturbed)


def _timed(way: Way, questions: list[Question]) -> list[Timing]:
    """The time of each call, from the smallest on as far as patience and a GPU's memory last."""
    end = time.perf_counter() + PATIENCE
    found: list[Timing] = []
    for question in questions:
        if len(found) >= FEWEST and time.perf_counter() > end:
            break
        try:
            found.append(_time(way, question))
        except torch.OutOfMemoryError:
            break
    while time.perf_counter() < end and (again := [place for place, timing in enumerate(found) if timing.disturbed]):
        for place in again:
            timing = _time(way, questions[place])
            if not timing.disturbed or timing.low < found[place].low:
                found[place] = timing
    return found


def _time(way: Way, question: Question) -> Timing:
    device = torch.device(question.device)
    sizes = ((question.T, question.D), (question.S, question.D), (question.S, question.H))
    draws = torch.Generator(device).manual_seed(0)  # those of the one that asks are left alone
    q, k, v = (torch.randn(1, question.A, *size, device=device, generator=draws).to(question.dtype) for size in sizes)
    options = Options(question.pattern, order=question.order, window=question.window)

    def forward() -> None:
        with torch.no_grad():
            way.attend(q, k, v, options)

    if not question.backward:
        return measure(forward, device, BUDGET)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    gradient = torch.ones(1, question.A, question.T, question.H, device=device, dtype=question.dtype)
    return measure(lambda: torch.autograd.grad(way.attend(q, k, v, options), leaves, gradient), device, BUDGET)


def fit(amounts: list[Work], seconds: list[float]) -> dict[str, float]:
    """Rates, none below zero, whose sums of amount times rate are as near to the seconds as can be, relatively.

    >>> fit([{"calls": 1, "pairs": 10}, {"calls": 1, "pairs": 100}], [0.3, 1.2])
    {'calls': 0.2, 'pairs': 0.01}
    """
    kinds = sorted({kind for some in amounts for kind in some})
    shares = np.array(
        [[some.get(kind, 0.0) / took for kind in kinds] for some, took in zip(amounts, seconds, strict=True)]
    )
    largest = shares.max(axis=0)
    used = [place for place in range(len(kinds)) if largest[place] > 0]
    while True:
        found = np.linalg.lstsq(shares[:, used] / largest[used], np.ones(len(seconds)), rcond=None)[0]
        if found.min() >= 0:
            return {kinds[place]: float(rate / largest[place]) for place, rate in zip(used, found, strict=True)}
        # What comes out below zero is told by the others already.
        del used[int(found.argmin())]
