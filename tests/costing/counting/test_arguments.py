"""The tensors among the arguments of a call."""

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._pytree import tree_leaves

from porism.costing.counting.arguments import tensors_in


class Pair(NamedTuple):
    first: Any
    second: Any


A, B, C = (torch.ones(size) for size in (1, 2, 3))


@pytest.mark.parametrize(
    "values",
    [
        A,
        None,
        "text",
        torch.Size([2, 3]),
        (A, 2, [B, None, (C,)]),
        ((A, [B]), {"out": C, "dim": 1, "inside": {"x": [A]}}),
        Pair(A, [Pair(B, 1.0)]),
        OrderedDict(weight=A, others=(B, C)),
        [[], (), {}],
    ],
)
def test_tensors_are_those_of_torchs_tree_in_the_same_order(values: Any) -> None:
    expected = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    found = tensors_in(values)
    assert len(found) == len(expected)
    assert all(one is other for one, other in zip(found, expected, strict=True))
