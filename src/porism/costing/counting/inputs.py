"""Inputs whose sizes are letters: `"B T D"` stands for a tensor, to be made at any sizes."""

import ast
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from porism.costing.counting import known
from porism.errors import ShapeError

_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
KINDS = ("float", "data", "int", "bool")
Draw = int | Literal["zeros", "ones"]
"""Numbers of real inputs: random ones of a seed, the lowest or the highest. Integers without a bound are 0 or 1."""


@dataclass(frozen=True)
class Size:
    """A number, a letter, or what is computed from them.

    >>> Size.parse("2*H+1").at({"H": 3})
    7
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> "Size":
        try:
            tree = ast.parse(text, mode="eval").body
            ok = all(
                isinstance(node, ast.BinOp | ast.Name | ast.Load)
                or type(node) in _ARITHMETIC
                or (isinstance(node, ast.Constant) and type(node.value) is int)
                for node in ast.walk(tree)
            )
        except SyntaxError:
            ok = False
        if not ok:
            raise ShapeError(f"{text!r} is no size. Write letters, numbers and what follows from them: 'B T 64 2*H'")
        size = cls(text)
        if small := [letter for letter in size.letters if not letter[0].isupper()]:
            raise ShapeError(
                f"the letter {small[0]!r} is small. Letters begin with a capital: {small[0].capitalize()!r}"
            )
        return size

    @property
    def letters(self) -> tuple[str, ...]:
        names = (node.id for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Name))
        return tuple(dict.fromkeys(names))

    def at(self, letters: Mapping[str, int]) -> int:
        return _value(ast.parse(self.text, mode="eval").body, letters)


def _value(node: ast.AST, letters: Mapping[str, int]) -> int:
    if isinstance(node, ast.Name):
        return letters[node.id]
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](_value(node.left, letters), _value(node.right, letters))
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value


@dataclass(frozen=True)
class TensorSpec:
    """A tensor with a letter, a number or some arithmetic for each size, and the kind of its elements.

    >>> TensorSpec.parse("B T A*D").make({"B": 2, "T": 3, "A": 2, "D": 4}, torch.float32).shape
    torch.Size([2, 3, 8])
    >>> TensorSpec.parse("B T : int < V").kind             # words below V; plain ": int" are 0 or 1
    'int'

    `float` asks for a gradient, as the input of a layer inside a model does; `data` does not.
    """

    sizes: tuple[Size, ...]
    kind: str = "float"
    below: Size | None = None
    dtype: torch.dtype | None = None
    """Left out, a float tensor has that of the module, an integer one 64 bits."""
    example: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the tensor this was read from, by their names."""

    @classmethod
    def parse(cls, text: str) -> "TensorSpec":
        shape, colon, kind = text.partition(":")
        kind, less, below = (part.strip() for part in kind.partition("<"))
        if colon and kind not in KINDS:
            raise ShapeError(f"cost: the input {text!r} is of no known kind {kind!r}. Choose from {', '.join(KINDS)}.")
        if less and kind != "int":
            raise ShapeError(
                f"cost: the input {text!r} has a bound, and only integers have one. Write ': int < {below}'."
            )
        try:
            spec = cls(
                tuple(Size.parse(word) for word in shape.split()), kind or "float", Size.parse(below) if less else None
            )
        except ShapeError as error:
            raise ShapeError(f"cost: in the input {text!r}, {error}.") from None
        if any(size.text == "0" for size in spec.sizes):
            raise ShapeError(f"cost: the input {text!r} has a size of zero. Give sizes from 1 on.")
        return spec

    @property
    def letters(self) -> tuple[str, ...]:
        sizes = (*self.sizes, *([self.below] if self.below else []))
        return tuple(dict.fromkeys(letter for size in sizes for letter in size.letters))

    def make_fake(self, letters: Mapping[str, int], dtype: torch.dtype, draw: Draw) -> Tensor:
        """The tensor in a mode of fake tensors; integers know which numbers they stand for."""
        made = self.make(letters, dtype)
        if not made.dtype.is_floating_point:
            known.draw(made, lambda: self.make(letters, dtype, draw), is_bounded=self.below is not None)
        return made

    def make(self, letters: Mapping[str, int], dtype: torch.dtype, draw: Draw | None = None) -> Tensor:
        """The tensor at given sizes; without a draw its numbers are undefined."""
        shape = [size.at(letters) for size in self.sizes]
        kinds = {"int": self.dtype or torch.int64, "bool": torch.bool}
        kind = kinds.get(self.kind, self.dtype or dtype)
        if draw is None:
            return torch.empty(shape, dtype=kind, requires_grad=self.kind == "float")
        below = 2 if self.below is None else self.below.at(letters)
        if draw == "zeros":
            made = torch.zeros(shape, dtype=kind)
        elif draw == "ones":
            made = torch.full(shape, below - 1 if self.kind == "int" else 1, dtype=kind)
        elif self.kind in kinds:
            generator = torch.Generator().manual_seed(draw)
            made = torch.randint(below, shape, generator=generator, device="cpu").to(kind)
        else:
            made = torch.randn(shape, generator=torch.Generator().manual_seed(draw), device="cpu").to(kind)
        return made.requires_grad_(self.kind == "float")


@dataclass(frozen=True)
class InputFactory:
    """An input that a function of letters makes: for what no text says, a graph without loops, lengths of a batch."""

    make: Callable[..., Any]

    def __post_init__(self) -> None:
        if small := [letter for letter in self.letters if not letter[0].isupper()]:
            raise ShapeError(
                f"cost: a function that makes an input takes letters, and {small[0]!r} is none. "
                f"Letters begin with a capital: {small[0].capitalize()!r}."
            )

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.make).parameters)

    def at(self, letters: Mapping[str, int]) -> Any:
        return self.make(**{letter: letters[letter] for letter in self.letters})


def parse(value: Any) -> Any:
    """The same nest of tuples, lists and mappings, each text a TensorSpec, each function of letters an InputFactory.

    An example tensor with its names, `(x, "B T D")`, is a TensorSpec of the example's kind.
    """
    if isinstance(value, str):
        return TensorSpec.parse(value)
    if isinstance(value, tuple) and [type(part) for part in value] == [Tensor, str]:
        return _named(*value)
    if isinstance(value, Mapping):
        return {key: parse(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(parse(part) for part in value)
    if inspect.isfunction(value):
        return InputFactory(value)
    return value


def _named(example: Tensor, text: str) -> TensorSpec:
    """An example and the names of its sizes stand for all tensors of its kind."""
    spec = TensorSpec.parse(text)
    sizes = {size.text: length for size, length in zip(spec.sizes, example.shape, strict=False)}
    wrong = any(name.isdigit() and int(name) != length for name, length in sizes.items())
    if wrong or len(spec.sizes) != example.dim():
        raise ShapeError(f"cost: {text!r} does not name the sizes of an example of {tuple(example.shape)}.")
    if example.dtype.is_floating_point:
        kind = "float" if example.requires_grad else "data"
    else:
        kind = "bool" if example.dtype == torch.bool else "int"
    return replace(spec, kind=kind, dtype=example.dtype, example=sizes)


def check(nest: Any) -> None:
    """Does a letter have the same size in every example?"""
    sizes: dict[str, int] = {}
    for leaf in _leaves(nest):
        for letter, size in leaf.example.items() if isinstance(leaf, TensorSpec) else ():
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"cost: the letter {letter} is {sizes[letter]} in one example and {size} in another. "
                    "Give sizes that differ different letters."
                )


def _leaves(value: Any) -> Iterator[TensorSpec | InputFactory]:
    if isinstance(value, TensorSpec | InputFactory):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)


def letters_of(value: Any) -> tuple[str, ...]:
    """The letters of a nest, in the order they appear."""
    return tuple(dict.fromkeys(letter for leaf in _leaves(value) for letter in leaf.letters))


def nbytes(value: Any, letters: Mapping[str, int], dtype: torch.dtype) -> int:
    """What the tensors of a nest take at given sizes, as far as their specifications tell.

    >>> nbytes(TensorSpec.parse("B T 8"), {"B": 2, "T": 3}, torch.float32)
    192
    """
    found = 0
    for leaf in _leaves(value):
        if isinstance(leaf, TensorSpec):
            kind = leaf.dtype or {"int": torch.int64, "bool": torch.bool}.get(leaf.kind, dtype)
            found += math.prod(size.at(letters) for size in leaf.sizes) * kind.itemsize
    return found


def make(
    value: Any, letters: Mapping[str, int], dtype: torch.dtype, draw: Draw | None = None, *, fake: bool = False
) -> Any:
    """The nest with every TensorSpec and every InputFactory at given sizes; anything else stays.

    fake: a mode of fake tensors is active.
    """
    if isinstance(value, TensorSpec):
        return value.make(letters, dtype, draw) if draw is None or not fake else value.make_fake(letters, dtype, draw)
    if isinstance(value, InputFactory):
        return value.at(letters)
    if isinstance(value, Tensor):
        return value.detach().requires_grad_(value.requires_grad)
    if isinstance(value, Mapping):
        return {key: make(part, letters, dtype, draw, fake=fake) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(make(part, letters, dtype, draw, fake=fake) for part in value)
    return value
