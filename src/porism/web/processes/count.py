"""The count worker: derives, recounts and measures costs. It alone imports modules of the user's own."""

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from porism.api.cost import cost_of, read_inputs, resolve
from porism.costing.cost import Cost
from porism.costing.counting.listening import before_each_count
from porism.costing.module_row import KINDS
from porism.costing.quantity import Quantity
from porism.costing.reading import CostReading
from porism.errors import RecipeError
from porism.layers.cases import LAYERS
from porism.training.device import choose_device
from porism.web.processes.cost_json import cost_json
from porism.web.processes.letter_factory import letter_factory
from porism.web.processes.process import JobStep, serve
from porism.web.processes.timing import time_pass

MOST_KEPT = 16


class DerivedCost(NamedTuple):
    """A cost, its kind (layer, variant, recipe or module) and what there is to know of it."""

    cost: Cost
    kind: str
    about: str


class DerivedCosts:
    """The costs that were derived last, by all that decides them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, DerivedCost] = OrderedDict()

    def get(self, payload: Mapping[str, Any]) -> DerivedCost:
        names = ("target", "inputs", "arguments", "multiples")
        key = repr([payload.get(name) for name in names])
        if key not in self._kept:
            self._kept[key] = self._derive(payload)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _derive(self, payload: Mapping[str, Any]) -> DerivedCost:
        named = resolve(payload["target"], read_inputs(payload["inputs"]))
        arguments, about, kind = payload.get("arguments", ""), named.about, "variant"
        if ":" in named.name:
            target, about = letter_factory(named.target, arguments)
            named, kind = replace(named, target=target), "module"
        elif arguments:
            raise RecipeError(f"cost: {named.name} has arguments of its own. Leave out {arguments[:40]!r}.")
        elif named.recipe is not None or named.name in LAYERS:
            kind = "layer" if named.recipe is None else "recipe"
        return DerivedCost(cost_of(named, multiples=payload.get("multiples") or {}), kind, about)


DERIVED = DerivedCosts()


@contextmanager
def counting(step: JobStep) -> Iterator[None]:
    """Report every size that is counted while this lasts, and stop between two if that is requested."""
    done = itertools.count()
    with before_each_count(lambda: step.progress(next(done), None, "sizes counted")):
        yield


def derive(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """The formulas of a target."""
    with counting(step):
        cost, kind, about = DERIVED.get(payload)
    return cost_json(cost, kind, about)


def recount(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """The numbers at sizes, each counted there."""
    with counting(step):
        cost = DERIVED.get(payload).cost
    step.check()
    sizes = cost.complete_sizes(payload["at"])
    reading = CostReading(cost, sizes, recount=True, explains=False)
    found = {kind: reading.quantity(kind) for kind in KINDS}
    counted = reading.counted(always=True)
    return {
        "target": cost.name,
        "at": {letter: str(size) for letter, size in sizes.items()},
        "values": {kind: _digits(quantity) for kind, quantity in found.items()},
        "known": {kind: _known(quantity, counted) for kind, quantity in found.items()},
    }


def measure(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """The seconds of a pass forward and backward, measured; predicted beside where the device's peaks are known."""
    return _time(payload, step, calibrate=False)


def calibrate(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """The same, and the device's peaks are measured first where they are not known."""
    return _time(payload, step, calibrate=True)


def _time(payload: dict[str, Any], step: JobStep, *, calibrate: bool) -> dict[str, Any]:
    with counting(step):
        cost = DERIVED.get(payload).cost
    device = choose_device(payload.get("device", "cpu"))
    return dict(time_pass(cost, payload["at"], device, step, calibrate))


def _digits(quantity: Quantity) -> str | None:
    return None if quantity.value is None else str(int(quantity.value))


def _known(quantity: Quantity, counted: Any) -> dict[str, str]:
    """How a number is known: one that was counted here says so, also where the formula says the same."""
    counted_here = isinstance(counted, dict) and quantity.label in ("by formula", "extrapolated")
    return {"label": "counted" if counted_here else quantity.label, "why": quantity.why}


def main() -> int:
    return serve({"derive": derive, "recount": recount, "measure": measure, "calibrate": calibrate})
