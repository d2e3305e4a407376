"""From a module's code to its formula: count at a few sizes, interpolate, confirm at sizes that were held out."""

import copy
import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from porism.cost import inputs as specs
from porism.cost.counting import count, total
from porism.cost.derived import KINDS, Derived, ModuleRow
from porism.cost.interpolation import interpolate
from porism.errors import PorismError, ShapeError

START = (3, 5, 7, 11, 13, 17, 19, 23, 29)
"""Sizes to try a target with: no two alike, so that no letter stands in for another by chance."""


def derive(target: Any, *inputs: Any, dtype: torch.dtype = torch.float32, **named: Any) -> Derived:
    """What a module, a function or a factory of modules costs, as formulas in the letters of its inputs.

    >>> derive(nn.Linear(64, 10), "B T D").flops
    1280*B*T
    >>> derive(lambda D, H: nn.LSTM(D, H), "T B D").flops
    8*B*H*T*(D + H)

    A text names the sizes of a tensor; the letters of a factory are its arguments. A letter that the module itself has
    fixed becomes its number. Nothing is allocated: all runs on torch's `meta` device.
    """
    subject = _Subject(target, specs.parse(inputs), specs.parse(named), dtype)
    fixed = subject.find_fixed()
    letters = [letter for letter in subject.letters if letter not in fixed]
    fitted = interpolate(lambda sizes: subject.count({**fixed, **sizes}), letters)
    rows = []
    for path, kind in subject.kinds.items():
        found = {name: fitted[f"{name} {path}"] for name in KINDS}
        if path == "" or any(part.formula != 0 for part in found.values()):
            rows.append(ModuleRow(path, kind, found))
    return Derived(subject.name, tuple(letters), fixed, tuple(rows), subject.uncounted)


@dataclass
class _Subject:
    """What is counted: a module or function that can be called at any sizes of its letters."""

    target: Any
    inputs: tuple[Any, ...]
    named: dict[str, Any]
    dtype: torch.dtype

    def __post_init__(self) -> None:
        self.target = getattr(self.target, "_orig_mod", self.target)
        self.factory = _factory_letters(self.target)
        used = specs.letters_of([*self.inputs, *self.named.values()])
        self.letters = tuple(dict.fromkeys([*used, *self.factory]))
        self.kinds = {"": getattr(self.target, "__name__", type(self.target).__name__)}
        self.uncounted: dict[str, int] = {}
        if isinstance(self.target, nn.Module):
            self.target = _on_meta(self.target)

    @property
    def name(self) -> str:
        return self.kinds[""]

    def count(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Every kind of cost of every submodule, from one call at given sizes."""
        called = self._at(sizes)
        args = specs.make(self.inputs, sizes, self.dtype)
        kwargs = specs.make(self.named, sizes, self.dtype)
        counted = count(called, *args, **kwargs)
        modules: dict[str, Any] = dict(called.named_modules()) if isinstance(called, nn.Module) else {"": None}
        if modules[""] is not None:
            self.kinds = {path: type(module).__name__ for path, module in modules.items()}
        self.uncounted.update(counted.uncounted)
        saved = {path: {"saved": size} for path, size in counted.saved.items()}
        quantities = {}
        for path, module in modules.items():
            parameters = 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
            quantities[f"parameters {path}"] = parameters
            quantities[f"flops {path}"] = total(counted.forward, path)
            quantities[f"backward {path}"] = total(counted.backward, path)
            quantities[f"saved {path}"] = total(saved, path)
        return quantities

    def _at(self, sizes: Mapping[str, int]) -> Callable[..., Any]:
        if not self.factory:
            called: Callable[..., Any] = self.target
        else:
            with torch.device("meta"):
                called = self.target(**{letter: sizes[letter] for letter in self.factory})
        return called.to(self.dtype) if isinstance(called, nn.Module) else called

    def find_fixed(self) -> dict[str, int]:
        """The letters whose size the module has fixed: those it refuses at any other."""
        first = dict(zip(self.letters, START, strict=False))
        refusal = self._refusal(first)
        if refusal is None:
            return {}
        if not isinstance(self.target, nn.Module):
            raise refusal
        known = sorted({size for parameter in self.target.parameters() for size in parameter.shape})
        for number in (1, 2):
            for letters in itertools.combinations(self.letters, number):
                for sizes in itertools.product(known, repeat=number):
                    fixed = dict(zip(letters, sizes, strict=True))
                    if self._refusal({**first, **fixed}) is None:
                        return fixed
        raise refusal

    def _refusal(self, sizes: Mapping[str, int]) -> PorismError | None:
        try:
            self.count(sizes)
        except PorismError as error:
            return error
        return None


def _factory_letters(target: Any) -> tuple[str, ...]:
    """The letters a factory of modules takes; none for a module or a function of tensors."""
    if isinstance(target, nn.Module):
        return ()
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return ()
    letters = [name for name in names if len(name) == 1 and name.isupper()]
    if letters and len(letters) < len(names):
        raise ShapeError(
            f"cost: {getattr(target, '__name__', target)} takes {', '.join(names)}: letters and other things. "
            "Wrap it in a function whose arguments are all letters."
        )
    return tuple(letters)


def _on_meta(module: nn.Module) -> nn.Module:
    """The same module without its weights: copied, each tensor replaced by one of its shape that holds nothing."""
    tensors = [*module.parameters(), *module.buffers()]
    empty: dict[int, Any] = {}
    for tensor in tensors:
        hollow = torch.empty_like(tensor, device="meta")
        empty[id(tensor)] = nn.Parameter(hollow, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else hollow
    return copy.deepcopy(module, empty)
