"""Inputs whose sizes are letters: `"B T D"` stands for a tensor, to be made at any sizes."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError

_DTYPES = {"float": None, "int": torch.int64, "bool": torch.bool}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor with a letter or a number for each size.

    >>> TensorSpec.parse("B T D").make({"B": 2, "T": 3, "D": 4}, torch.float32).shape
    torch.Size([2, 3, 4])
    >>> TensorSpec.parse("B T : int").dtype                # words, classes, indices
    torch.int64
    """

    sizes: tuple[str | int, ...]
    dtype: torch.dtype | None = None

    @classmethod
    def parse(cls, text: str) -> "TensorSpec":
        shape, colon, kind = text.partition(":")
        kind = kind.strip()
        if colon and kind not in _DTYPES:
            raise ShapeError(
                f"cost: the input {text!r} is of no known kind {kind!r}. Choose from {', '.join(_DTYPES)}."
            )
        sizes: list[str | int] = []
        for word in shape.split():
            if not (word.isdigit() or word.isidentifier()):
                raise ShapeError(
                    f"cost: {word!r} in the input {text!r} is no size. Write letters or numbers: 'B T 64'."
                )
            sizes.append(int(word) if word.isdigit() else word)
        if 0 in sizes:
            raise ShapeError(f"cost: the input {text!r} has a size of zero. Give sizes from 1 on.")
        return cls(tuple(sizes), _DTYPES[kind] if colon else None)

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(size for size in self.sizes if isinstance(size, str))

    def make(self, letters: Mapping[str, int], dtype: torch.dtype, device: str = "meta") -> Tensor:
        """The tensor at given sizes. A float tensor asks for a gradient, as a layer inside a model is asked for one."""
        shape = [letters[size] if isinstance(size, str) else size for size in self.sizes]
        kind = self.dtype or dtype
        if kind.is_floating_point:
            return torch.zeros(shape, dtype=kind, device=device, requires_grad=True)
        return torch.zeros(shape, dtype=kind, device=device)


def parse(value: Any) -> Any:
    """The same nest of tuples, lists and mappings, each text a TensorSpec."""
    if isinstance(value, str):
        return TensorSpec.parse(value)
    if isinstance(value, Mapping):
        return {key: parse(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(parse(part) for part in value)
    return value


def specs(value: Any) -> Iterator[TensorSpec]:
    """Every TensorSpec of a nest."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from specs(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from specs(part)


def letters_of(value: Any) -> tuple[str, ...]:
    """The letters of a nest, in the order they appear."""
    return tuple(dict.fromkeys(letter for spec in specs(value) for letter in spec.letters))


def make(value: Any, letters: Mapping[str, int], dtype: torch.dtype, device: str = "meta") -> Any:
    """The nest with every TensorSpec made at given sizes; anything else stays, tensors moved to the device."""
    if isinstance(value, TensorSpec):
        return value.make(letters, dtype, device)
    if isinstance(value, Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, Mapping):
        return {key: make(part, letters, dtype, device) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(make(part, letters, dtype, device) for part in value)
    if dataclasses.is_dataclass(value):
        raise ShapeError(f"cost: an input of type {type(value).__name__} cannot be sized. Give its tensors by name.")
    return value
