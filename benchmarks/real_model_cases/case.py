"""One model that nobody here wrote, with its letters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.letters import ALPHABET


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and what its letters mean.

    >>> CASES["gpt2"].derive().flops
    2*A*B*D*T*(12*A*D*L + 2*L*T + V)
    """

    name: str
    target: Callable[..., nn.Module]
    """A function of letters that makes the model, or of none where its size is fixed."""
    inputs: Mapping[str, Any]
    letters: Mapping[str, str]
    """What a letter means here, where the alphabet does not say it already."""
    published: Mapping[str, int]
    """The sizes of a model of this kind that people use: the formulas are held against a count there too."""
    stays_a_number: str
    """What is not varied."""
    multiples: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    dtype: torch.dtype | None = None

    def derive(self) -> Cost:
        target = self.target if self.target.__code__.co_argcount else self.target()
        return derive(target, self.inputs, dtype=self.dtype, multiples=self.multiples, largest=self.largest)

    def meanings(self, letters: tuple[str, ...]) -> dict[str, str]:
        """What each of these letters means."""
        return {letter: self.letters.get(letter) or ALPHABET[letter] for letter in letters}
