"""Batches that are made when they are read."""

import pytest
import torch

from porism.tasks.blocks.batches import LazyBatches
from porism.training.task import Batch


class Counted(LazyBatches):
    def __init__(self, size: int) -> None:
        self.size = size
        self.made: list[int] = []

    def __len__(self) -> int:
        return self.size

    def batch(self, number: int) -> Batch:
        self.made.append(number)
        return (torch.tensor(number),)


@pytest.mark.parametrize("index", [0, 6, -1, -7])
def test_one_batch_is_made_for_an_index(index: int) -> None:
    batches = Counted(7)
    assert int(batches[index][0]) == range(7)[index]
    assert batches.made == [range(7)[index]]


@pytest.mark.parametrize("index", [slice(2, 5), slice(None), slice(-2, None), slice(None, None, -3), slice(9, 12)])
def test_a_slice_is_a_list_of_batches(index: slice) -> None:
    assert [int(batch[0]) for batch in Counted(7)[index]] == [*range(7)[index]]


@pytest.mark.parametrize("index", [7, -8])
def test_there_is_none_beyond_the_ends(index: int) -> None:
    with pytest.raises(IndexError):
        Counted(7)[index]
    assert len([*Counted(7)]) == 7
