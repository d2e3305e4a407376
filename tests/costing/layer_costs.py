"""The costs of our layers as derived from their code: seconds each, so each once in a process."""

from functools import cache
from importlib import import_module

from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.layers.cases import LAYERS


@cache
def layer_cost(name: str) -> Cost:
    place = import_module(f"{LAYERS[name]}.cost")
    target, inputs = place.subject()
    return derive(target, *inputs, multiples=getattr(place, "MULTIPLES", {}), largest=getattr(place, "LARGEST", {}))
