"""How right are FLOP counters? Ours and those people use, against counts worked out by hand, forward and backward.

    python benchmarks/counters.py                            all cases, a minute at most; writes results/counters.json
    python benchmarks/counters.py --device cuda --out benchmarks/results/counters_cuda.json    as counted on a GPU

Peers: torch's FlopCounterMode, fvcore, torchinfo, thop, ptflops and calflops, all in one run on the same calls. What is
shown is a counter's number over the hand count: 1 is exact, +n is its number without products. There are two tallies:
of all cases, and of those that every convention counts alike. The run fails when ours is anything but 1; not on a GPU,
whose kernels the hand counts do not describe.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table

from counter_cases import CASES, Call, Case, written
from counter_peers import PEERS, PORISM, Answer, ask, check_installed
from counter_peers import versions as peer_versions
from porism.costing.counting.count import count, total
from porism.errors import MissingExtra
from porism.training.device import hardware, versions
from sources import checksums

MEASURES = (
    "costing/counting/count.py",
    "costing/counting/flops.py",
    "costing/counting/operators.py",
    "costing/counting/passes.py",
)
RESULT = Path(__file__).parent / "results" / "counters.json"
COUNTERS = (PORISM, *PEERS)
PASSES = ("forward", "backward")
GOES_BACK = ("porism", "torch", "calflops")
"""Those that count a backward pass. One of them, calflops, takes it for twice the forward pass."""

CONVENTIONS = {
    **dict.fromkeys(("fft", "rfft", "irfft", "CTC loss"), "additions are counted"),
    "cdist by pairs": "differences are counted",
    **dict.fromkeys(("Elman", "Readout", "Readout with its loss"), "a layer of Porism's own"),
    **dict.fromkeys(("SDPA", "SDPA, causal", "SDPA, two heads a key", "SDPA, cross"), "fused or plain, causal or full"),
}
"""Cases in which counters differ by convention, and why; those without products are others."""


def ratio(answer: Answer, passed: str, hand: int) -> str:
    """What a counter says over the hand count, as it is shown."""
    counted: int | None = getattr(answer, passed)
    if counted is None:
        return "raises" if answer.reason else "-"  # a pass it does not count
    if counted == hand:
        return "1"
    if hand == 0:
        return f"+{counted}"
    shown = (f"{counted / hand:.{digits}g}" for digits in range(3, 18))
    return next((text for text in shown if text != "1"), "nearly 1")  # which is not exact


def row(case: Case) -> dict[str, Any]:
    """All counters on one case."""
    answers = {counter.name: ask(counter, case) for counter in COUNTERS}
    found: dict[str, Any] = {"case": case.name, "convention": convention(case)}
    for passed in PASSES:
        formula = getattr(case, passed)
        hand = case.hand(formula)
        counting = {name: answer for name, answer in answers.items() if passed == "forward" or name in GOES_BACK}
        found[passed] = {
            "formula": written(formula),
            "hand": hand,
            "counts": {name: getattr(answer, passed) for name, answer in counting.items()},
            "ratios": {name: ratio(answer, passed, hand) for name, answer in counting.items()},
        }
    if case.elementwise is not None:
        call = case.make()
        counted = count(call.target, *call.args, **call.kwargs)
        found["elementwise"] = {
            "formula": written(case.elementwise),
            "hand": case.hand(case.elementwise),
            "porism": total(counted.elementwise_forward),
        }
    found["reasons"] = {name: answer.reason for name, answer in answers.items() if answer.reason}
    return found


def convention(case: Case) -> str:
    """Why counters may differ in this case without an error; empty where they may not."""
    return CONVENTIONS.get(case.name, "" if case.hand(case.forward) else "nothing is multiplied")


def tallies(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of all cases, and of those that every convention counts alike."""
    alike = [found for found in rows if not found["convention"]]
    return {
        name: {"cases": len(some), **{passed: tally(some, passed) for passed in PASSES}}
        for name, some in (("alike", alike), ("all", rows))
    }


def tally(rows: Sequence[dict[str, Any]], passed: str) -> dict[str, dict[str, int]]:
    """In how many cases each counter is exact, and in how many its number is half of the truth, double, or worse.

    Some peers count biases and activations among the products: that is a convention, and moves them off 1, but not so
    far. What they say without products is not held against them.
    """

    def off(found: dict[str, Any], name: str) -> bool:
        counted, hand = found["counts"][name], found["hand"]
        return counted is None or (hand > 0 and not hand < 2 * counted < 4 * hand)

    columns = [found[passed] for found in rows]
    return {
        name: {
            "exact": sum(found["ratios"][name] == "1" for found in columns),
            "off_by_two": sum(off(found, name) for found in columns),
        }
        for name in (columns[0]["ratios"] if columns else ())
    }


def show(rows: Sequence[dict[str, Any]], console: Console) -> None:
    for passed in PASSES:
        names = list(rows[0][passed]["ratios"])
        table = Table("case", "by hand", *names, title=f"{passed}: counted / by hand")
        for found in rows:
            table.add_row(found["case"], found[passed]["formula"], *found[passed]["ratios"].values())
        console.print(table)
    table = Table("case", "by hand", "porism / by hand", title="elementwise, without products")
    for found in rows:
        if elements := found.get("elementwise"):
            shown = ratio(Answer(elements["porism"]), "forward", elements["hand"])
            table.add_row(found["case"], elements["formula"], shown)
    console.print(table)
    for which, numbers in tallies(rows).items():
        for name in numbers["forward"]:
            parts = [
                f"{passed} exact in {numbers[passed][name]['exact']}, "
                f"off by two times or more in {numbers[passed][name]['off_by_two']}"
                for passed in PASSES
                if name in numbers[passed]
            ]
            console.print(f"{name}, of {numbers['cases']} ({which}): {'; '.join(parts)}", highlight=False)


def made_on(device: torch.device, case: Case) -> Case:
    """The case with its tensors and modules on a device; calls run outside of torch's device mode, which peers see."""

    @wraps(case.build)
    def build(**sizes: int) -> Call:
        with device:
            return case.build(**sizes)

    return replace(case, build=build)


def all_exact(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether ours is, in every case and every column."""
    products = all(found[passed]["ratios"]["porism"] == "1" for found in rows for passed in PASSES)
    elements = [found["elementwise"] for found in rows if "elementwise" in found]
    return products and all(element["porism"] == element["hand"] for element in elements)


def main(device: str = "cpu", out: Path = RESULT) -> int:
    """Count, print and keep.

    device: where the calls run; kernels differ, and with them what counters see.
    out: where to keep the result as JSON.
    """
    try:
        check_installed()
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return error.exit_code
    place = torch.device(device)
    rows = [row(case if place.type == "cpu" else made_on(place, case)) for case in CASES]
    console = Console()
    show(rows, console if console.is_terminal else Console(width=160))
    result = {
        "hardware": hardware(place),
        "versions": {**versions(), **peer_versions()},
        "sources": checksums(MEASURES, place.type),
        "tally": tallies(rows),
        "rows": rows,
    }
    out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 0 if all_exact(rows) or place.type != "cpu" else 1


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
