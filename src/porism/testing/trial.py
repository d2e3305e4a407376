"""A layer at several sizes with inputs drawn for it, and how two of its answers are compared."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from porism.costing.counting.inputs import TensorSpec, letters_of, make, parse
from porism.costing.terms import Terms
from porism.errors import RecipeError, nearest
from porism.layers.operands import check_whole
from porism.testing.gradients import relative_error
from porism.testing.report import Failure

Input: TypeAlias = str | Tensor | Callable[..., Any]
"""`"B T D"`, a tensor, or a function of letters that makes it."""

SIZES = (1, 2, 7, 63)

Inputs = tuple[Any, ...]
Named = dict[str, Any]


@dataclass
class LayerTrial:
    """A layer, what it is given, and the ways to compare two of its runs."""

    layer: Callable[..., nn.Module] | nn.Module
    inputs: tuple[Any, ...]
    naive: Callable[..., Any] | None
    gradient: Callable[..., Mapping[str, Tensor]] | None
    cost: Terms | None
    sizes: dict[str, Sequence[int]]
    dtypes: Sequence[torch.dtype] | None
    devices: Sequence[str] | None
    seed: int

    def __post_init__(self) -> None:
        self.specs = parse(tuple(part for part in self.inputs if not isinstance(part, Mapping)))
        self.named = parse(
            {key: part for given in self.inputs if isinstance(given, Mapping) for key, part in given.items()}
        )
        if not callable(self.layer):
            raise RecipeError(
                f"check: the layer is {self.layer!r}, expected a module, or a function of letters that makes one."
            )
        known = self.letters
        if unknown := [letter for letter in self.sizes if letter not in known]:
            raise RecipeError(
                f"check: no input and no argument of the layer has a letter {unknown[0]}. {nearest(unknown[0], known)}"
            )
        for letter, sizes in self.sizes.items():
            # A layer of no elements passes whatever it does.
            if isinstance(sizes, str) or not isinstance(sizes, Sequence) or not sizes:
                raise RecipeError(f"check: the sizes of {letter} are {sizes!r}, expected some, such as (1, 2, 7).")
            for size in sizes:
                check_whole("check", letter, size)

    @cached_property
    def factory_letters(self) -> tuple[str, ...]:
        """Letters that decide how the layer is built."""
        if isinstance(self.layer, nn.Module):
            return ()
        return tuple(inspect.signature(self.layer).parameters)

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.factory_letters, *letters_of((self.specs, self.named)))))

    @cached_property
    def name(self) -> str:
        return type(self.build(self.some_sizes())).__name__

    def all_sizes(self) -> Iterator[dict[str, int]]:
        """So many settings as a letter has sizes, each letter at another of them."""
        lists = [self.sizes.get(letter, SIZES) for letter in self.letters]
        for turn in range(max(map(len, lists), default=1)):
            yield {
                letter: sizes[(turn + place) % len(sizes)]
                for place, (letter, sizes) in enumerate(zip(self.letters, lists, strict=True))
            }

    def some_sizes(self) -> dict[str, int]:
        """One setting with every letter above 1 where it can be."""
        return {
            letter: sorted(self.sizes.get(letter, SIZES))[len(self.sizes.get(letter, SIZES)) // 2]
            for letter in self.letters
        }

    def smallest_sizes(self) -> dict[str, int]:
        return {letter: min(self.sizes.get(letter, SIZES)) for letter in self.letters}

    def build(self, sizes: Mapping[str, int], dtype: torch.dtype = torch.float64) -> nn.Module:
        """The layer with every parameter drawn anew: zeros would hide what is multiplied by them."""
        torch.manual_seed(self.seed)
        if isinstance(self.layer, nn.Module):
            layer = copy.deepcopy(self.layer)
        else:
            layer = self.layer(**{letter: sizes[letter] for letter in self.factory_letters})
        if not isinstance(layer, nn.Module):
            raise RecipeError(f"check: the layer was made as a {type(layer).__name__}, expected a torch.nn.Module.")
        layer = layer.to(torch.float64)
        with torch.no_grad():
            for parameter in layer.parameters():
                nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5)
        return layer.to(dtype)

    def given(self, sizes: Mapping[str, int], dtype: torch.dtype = torch.float64) -> tuple[Inputs, Named]:
        """Inputs at given sizes: random numbers where a text names them, gradients for those that can have one."""
        torch.manual_seed(self.seed + 1)
        nest = make((self.specs, self.named), sizes, torch.float64, "zeros")

        def drawn(spec: Any, value: Any) -> Any:
            if isinstance(spec, TensorSpec) and value.is_floating_point():
                return torch.randn(value.shape, dtype=torch.float64).to(dtype).requires_grad_(spec.kind == "float")
            if isinstance(spec, TensorSpec) and spec.below is not None:
                return torch.randint(spec.below.at(sizes), value.shape)
            return tree_map_only(Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, value)

        args, named = nest
        return (
            tuple(drawn(spec, value) for spec, value in zip(self.specs, args, strict=True)),
            {key: drawn(self.named[key], value) for key, value in named.items()},
        )

    def variables(self, layer: nn.Module, args: Inputs, named: Named) -> dict[str, Tensor]:
        """All that gets a gradient, by name."""
        given = {f"input{i}": value for i, value in enumerate(args)} | named
        found = {**dict(layer.named_parameters()), **{k: v for k, v in given.items() if isinstance(v, Tensor)}}
        return {name: value for name, value in found.items() if value.requires_grad}


def answers_of(output: Any) -> list[Tensor]:
    """The tensors of an answer that hold numbers with a fraction."""
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def weighted(output: Any) -> Tensor:
    """A scalar in which every number of the answer has another weight."""
    parts = answers_of(output)
    if not parts:
        raise Failure("the layer answers with no tensor of floating numbers")
    terms = [(part.flatten() * weights_for(part).flatten()).sum() for part in parts]
    return torch.stack([term.to(terms[0].dtype) for term in terms]).sum()


def weights_for(part: Tensor) -> Tensor:
    return torch.linspace(-1, 2, max(part.numel(), 1), dtype=part.dtype, device=part.device)[: part.numel()].view(
        part.shape
    )


def gradients_of(output: Any, variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    loss = weighted(output)
    if not loss.requires_grad:
        raise Failure("the answer asks for no gradient, though a parameter or an input does")
    found = torch.autograd.grad(loss, list(variables.values()), allow_unused=True)
    return {
        name: torch.zeros_like(value) if slope is None else slope
        for (name, value), slope in zip(variables.items(), found, strict=True)
    }


def largest_error(found: Sequence[Tensor], expected: Sequence[Tensor], where: str) -> float:
    """The largest relative error of several tensors; NaN stays.

    One that is smaller than a thousandth of the largest is held against that: a gradient that is 0 because its terms
    cancel, is their rounding error.
    """
    if len(found) != len(expected):
        raise Failure(f"{len(found)} tensors, expected {len(expected)}, {where}")
    least = 1e-3 * max((float(part.detach().abs().max()) for part in expected if part.numel()), default=0.0)
    errors = [
        _error(a.detach().double(), b.detach().double(), least, where) for a, b in zip(found, expected, strict=True)
    ]
    return max(errors, key=lambda error: float("inf") if error != error else error, default=0.0)


def _error(found: Tensor, expected: Tensor, least: float, where: str) -> float:
    if found.shape != expected.shape:
        raise Failure(f"an answer of {tuple(found.shape)}, expected {tuple(expected.shape)}, {where}")
    if found.numel() == 0:
        return 0.0
    own = float(expected.abs().max())
    # A least that is NaN is not larger.
    return relative_error(found, expected) * (own / least if 0 < own < least else 1.0)


def worst_of(errors: Iterator[tuple[float, str]], tolerance: float) -> tuple[float, float]:
    """The largest of some errors; the first that is too large fails with the place that repeats it."""
    worst = 0.0
    for error, where in errors:
        if not error <= tolerance:
            raise Failure(f"relative error {error:.2e}, tolerated {tolerance:.0e}, {where}")
        worst = max(worst, error)
    return worst, tolerance


def at(sizes: Mapping[str, int]) -> str:
    return "at " + (", ".join(f"{letter}={size}" for letter, size in sizes.items()) or "its sizes")
