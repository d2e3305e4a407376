"""Ranks of values that may be equal."""

import torch

from porism.tasks.blocks.ranks import ranks


def test_equal_values_share_their_ranks() -> None:
    assert ranks(torch.tensor([5.0, 1.0, 5.0, 5.0, 2.0])).tolist() == [4.0, 1.0, 4.0, 4.0, 2.0]
