"""The arguments of a call: by order and by name, on a device."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors that go into an operator or come out of it, which nests them in lists, tuples and dicts alone.

    torch's tree_leaves asks of every value whether somebody has registered its type: a fifth of the time of a count.
    """
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return []
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple | dict):
            found += tensors_in(value)
    return found


def by_name(called: Any, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs by order and by name: a mapping whose keys are arguments of what is called names them."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for value in inputs:
        if isinstance(value, Mapping) and _takes(called, value):
            named.update(value)
        else:
            args.append(value)
    return tuple(args), named


def _takes(called: Any, names: Mapping[Any, Any]) -> bool:
    """Are these names of arguments? A function that takes only named arguments takes any."""
    try:
        arguments = inspect.signature(called.forward if isinstance(called, nn.Module) else called).parameters
    except (TypeError, ValueError):
        return False
    if set(names) <= set(arguments):
        return True
    kinds = [argument.kind for argument in arguments.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.POSITIONAL_OR_KEYWORD not in kinds


def moved(nest: Any, device: torch.device) -> Any:
    """A nest of arguments with its tensors on a device, leaves still leaves."""
    if isinstance(nest, Tensor):
        return nest.detach().to(device).requires_grad_(nest.requires_grad)
    if isinstance(nest, dict):
        return {key: moved(part, device) for key, part in nest.items()}
    if isinstance(nest, tuple | list):
        return type(nest)(moved(part, device) for part in nest)
    return nest
