"""The tensors of what a model returns: in nests, objects, distributions, generators; and what cannot be searched."""

import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from numbers import Number
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from porism.errors import RecipeError

WITHOUT_TENSORS: tuple[Any, ...] = (
    *(
        Number,
        str,
        bytes,
        type,
        Enum,
        np.ndarray,
        np.generic,
        types.ModuleType,
        nn.Module,
        type(None),
        type(...),
        range,
    ),
    *(torch.Size, torch.dtype, torch.device, torch.Generator, torch.Stream),
)
"""What is passed over: an output that is a module hands out its weights, which are no outputs."""

COLLECTIONS: tuple[Any, ...] = (list, tuple, deque, Set, type({}.values()), Iterator)


def tensors_of(nest: Any) -> Iterator[Tensor]:
    """The tensors of arguments: through mappings, lists, tuples and dataclasses."""
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, Mapping):
        yield from tensors_of(list(nest.values()))
    elif isinstance(nest, list | tuple):
        for value in nest:
            yield from tensors_of(value)
    elif is_dataclass(nest):
        yield from tensors_of([getattr(nest, entry.name) for entry in fields(nest)])


@dataclass
class Outputs:
    """The tensors of a result, whatever it is wrapped in, each once; generators are run to their end.

    >>> found = Outputs.of({"loss": torch.ones(2), "rest": (part for part in [torch.ones(3)])})
    >>> [len(tensor) for tensor in found.tensors], found.unsearched
    ([2, 3], [])

    `unsearched` names the types of objects that hide what they hold: tensors in them are not seen.
    """

    tensors: list[Tensor] = field(default_factory=list)
    unsearched: list[str] = field(default_factory=list)
    _seen: dict[int, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, result: Any) -> "Outputs":
        found = cls()
        found._search(result)
        return found

    @property
    def ends(self) -> list[Tensor]:
        """Where a backward pass begins."""
        return [tensor for tensor in self.tensors if tensor.requires_grad]

    def _search(self, value: Any) -> None:
        if isinstance(value, WITHOUT_TENSORS) or id(value) in self._seen:
            return
        self._seen[id(value)] = value  # held, so that no address is used twice
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return
        parts = _parts(value)
        if parts is None:
            self.unsearched.append(type(value).__name__)
            return
        for part in parts:
            self._search(part)


@dataclass(frozen=True)
class ChosenOutputs:
    """What of a result the backward pass starts from: its keys, attributes or places, or attributes of the module.

    >>> ChosenOutputs(("loss",)).of({"loss": 1.5, "logits": 2}, None)
    [1.5]
    >>> ChosenOutputs((0,)).of((1.5, 2), None)
    [1.5]
    """

    names: tuple[str | int, ...]

    def of(self, result: Any, module: nn.Module | None) -> list[Any]:
        return [self._one(result, module, name) for name in self.names]

    def _one(self, result: Any, module: nn.Module | None, name: str | int) -> Any:
        if isinstance(result, Mapping) and name in result:
            return result[name]
        if isinstance(name, int):
            if isinstance(result, list | tuple) and -len(result) <= name < len(result):
                return result[name]
        else:
            for owner in (result, module):  # a router's loss hangs on the module, "router.loss"
                with suppress(AttributeError):
                    return attrgetter(name)(owner)
        known = list(result) if isinstance(result, Mapping) else []
        listed = f" Keys: {', '.join(map(str, known))}." if known else ""
        raise RecipeError(f"cost: the result, a {type(result).__name__}, has no output {name!r}.{listed}")


def _parts(value: Any) -> Iterable[Any] | None:
    """What an object holds; None for an object of an unknown kind."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, COLLECTIONS):
        return [*value]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [*cells, *(value.__defaults__ or ())]
    if isinstance(value, types.BuiltinFunctionType):
        return []
    slots = [name for kind in type(value).__mro__ for name in _names(getattr(kind, "__slots__", ()))]
    held = [getattr(value, name) for name in slots if name not in ("__dict__", "__weakref__") and hasattr(value, name)]
    if hasattr(value, "__dict__"):
        return [*held, *vars(value).values()]
    return held if slots else None


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
