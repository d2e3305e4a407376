"""All that a choice depends on: sizes, limits, what may be approximated, and where it runs."""

from dataclasses import dataclass

import torch

from porism.layers.attention.mask import sees_all
from porism.layers.pattern import Pattern
from porism.layers.window.reach import reach


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which way of attending is the cheapest for q (B, A, T, D), k (B, G, S, D) and v (B, G, S, H)?"""

    B: int
    A: int
    T: int
    S: int
    D: int
    H: int
    pattern: Pattern
    offset: int = 0
    padded: bool = False
    """Whether keys may be padding."""
    ragged: bool = False
    """Whether texts lie end to end; B and T are then those of the padded batch that they stand for."""
    keeps_all: bool = True
    """Whether no weight is dropped."""
    backward: bool = True
    """Whether a backward pass follows."""
    order: int | None = None
    """The order from which on a series may stand in for the exponential; None where all has to be exact."""
    window: int | None = None
    """The keys near a query for which the exponential has to be exact all the same."""
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    threads: int = 1
    hollow: bool = False
    """Whether tensors only stand in for others, so that nothing may be measured."""

    @property
    def heads(self) -> int:
        """Of all texts together."""
        return self.B * self.A

    @property
    def is_limited(self) -> bool:
        """Whether some query may not look at some key."""
        return self.padded or not sees_all(self.pattern, self.S, self.offset)

    @property
    def is_masked(self) -> bool:
        """Whether fused kernels need a dense mask. They know a causal limit by name, if it is alone."""
        alone = self.pattern.kind == "causal" and self.offset == 0 and not self.padded
        return self.is_limited and not alone


def simplest(pattern: Pattern, T: int, S: int, offset: int) -> tuple[Pattern, int]:
    """The pattern and offset that show the same pairs of T queries and S keys, without a window if it reaches over all.

    >>> simplest(Pattern("sliding", window=100), T=64, S=64, offset=0)[0].kind
    'causal'
    """
    near = reach(pattern, T, S, offset)
    # Where some query looks at no key, those that do are told apart by whoever answers.
    return (near.pattern, near.offset) if near.is_whole(T) else (pattern, offset)
