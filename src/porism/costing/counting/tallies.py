"""Every kind of cost of every submodule, from one count."""

from collections.abc import Mapping

from torch import nn

from porism.costing.counting.count import Count
from porism.costing.counting.recorder import Tally


def quantities_of(counted: Count, modules: Mapping[str, nn.Module | None]) -> dict[str, int]:
    """The quantities of each module with all below it, as "kind path"."""
    tallies = {
        "flops": _by_module(counted.forward),
        "backward_flops": _by_module(counted.backward),
        "causal": _by_module(counted.causal_forward),
        "causal_backward_flops": _by_module(counted.causal_backward),
        "elementwise": _by_module(counted.elementwise_forward),
        "elementwise_backward_flops": _by_module(counted.elementwise_backward),
        "activation_bytes": _by_module({path: {"": size} for path, size in counted.saved.items()}),
    }
    quantities = {}
    for path, module in modules.items():
        for kind, size in _parameters(module).items():
            quantities[f"{kind} {path}"] = size
        for kind, by_module in tallies.items():
            if kind != "activation_bytes" or counted.sees_kept:
                quantities[f"{kind} {path}"] = by_module.get(path, 0)
    return quantities


def _by_module(tally: Tally) -> dict[str, int]:
    """The sum of a tally over each module and all below it."""
    sums: dict[str, int] = {}
    for path, operators in tally.items():
        number = sum(operators.values())
        parts = path.split(".") if path else []
        for depth in range(len(parts) + 1):
            above = ".".join(parts[:depth])
            sums[above] = sums.get(above, 0) + number
    return sums


def _parameters(module: nn.Module | None) -> dict[str, int]:
    parameters = [] if module is None else list(module.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "parameter_bytes": sum(parameter.nbytes for parameter in parameters),
        "gradient_bytes": sum(parameter.nbytes for parameter in trained),
        "trained_tensors": len(trained),
    }
