"""Conditions on the data: code that halts, exits early or routes asks whether something holds for some numbers.

What it would cost on the other path is counted by answering for the numbers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


class Conditions:
    """Answers to all questions of true or false about numbers that come from the data or from a random generator.

    Where `holds` is None nothing is answered, and nothing is followed.
    """

    def __init__(self, holds: bool | None, data: Any) -> None:
        self.holds = holds
        if holds is not None:
            _mark(data)

    def answer(self, operator: Any, args: Any) -> bool | None:
        """What such a question is answered with; None for all other operators."""
        if self.holds is None or operator is not aten._local_scalar_dense.default:
            return None
        return self.holds if args[0].dtype is torch.bool and hasattr(args[0], "porism_data") else None

    def follow(self, operator: Any, args: Any, kwargs: Any, out: Any) -> None:
        """What is computed from the data is data."""
        if self.holds is None:
            return
        is_random = torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())
        if is_random or any(hasattr(leaf, "porism_data") for leaf in tree_leaves((args, kwargs))):
            _mark(out)


def _mark(nest: Any) -> None:
    for leaf in tree_leaves(nest):
        if isinstance(leaf, Tensor):
            leaf.porism_data = True  # type: ignore[attr-defined]
