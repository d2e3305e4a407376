"""CostSubject: what is counted of a layer or a recipe, and what is known of its letters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import nn


@dataclass(frozen=True)
class CostSubject:
    """A module, function or factory with its inputs; of a recipe the model with its loss, at any sizes.

    >>> CostSubject(lambda D: nn.Linear(D, 4 * D), ("B T D",), sizes={"B": 32, "D": 100}).at({"D": 8}).sizes
    {'B': 32, 'D': 8}
    """

    target: nn.Module | Callable[..., Any]
    inputs: tuple[Any, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes that go without saying where numbers are requested: those of a recipe."""
    multiples: Mapping[str, int] = field(default_factory=dict)
    """Letters that something must divide (heads, strides): their formulas hold for multiples, and are short for it."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """Letters that are counted up to a size only, since more would take long or is not allowed."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    """Letters that stay numbers, since the code takes another way at every size of them."""
    sized_fields: tuple[str, ...] = ()
    """Fields of a recipe that letters stand for in its formulas."""
    made_of: Mapping[str, Any] = field(default_factory=dict)
    """What the target is made of beside the recipe, as plain JSON: the configuration of a pretrained encoder."""

    @classmethod
    def of(cls, subject: "CostSubject | tuple[Any, ...]") -> "CostSubject":
        """A subject as tasks of 0.1 give it: target, inputs, sizes."""
        return subject if isinstance(subject, CostSubject) else cls(*subject)

    def at(self, sizes: Mapping[str, int]) -> Self:
        """The same for numbers at these sizes: a letter that no formula is for at such a size stays a number."""
        odd = {letter: size for letter, size in sizes.items() if size % self.multiples.get(letter, 1)}
        fixed = {letter: sizes.get(letter, size) for letter, size in self.fixed.items()} | odd
        return replace(
            self,
            sizes={**self.sizes, **sizes},
            fixed=fixed,
            multiples={letter: step for letter, step in self.multiples.items() if letter not in fixed},
            largest={letter: size for letter, size in self.largest.items() if letter not in fixed},
        )
