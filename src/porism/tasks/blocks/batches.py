"""Batches that are made when they are read, and examples of similar length in the same batch."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from porism.training.task import Batch


class LazyBatches(Sequence[Batch]):
    """A sequence of batches, each made on access, by index or by slice.

    >>> class Squares(LazyBatches):
    ...     def __len__(self) -> int:
    ...         return 3
    ...     def batch(self, number: int) -> Batch:
    ...         return (torch.tensor(number**2),)
    >>> Squares()[-1]
    (tensor(4),)
    """

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """The batch of an index from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        numbers = range(len(self))[index]
        return self.batch(numbers) if isinstance(numbers, int) else [self.batch(number) for number in numbers]


def shuffled_batches(
    buckets: Sequence[Tensor], batch_size: int, generator: torch.Generator
) -> list[tuple[int, Tensor]]:
    """One pass over buckets of indices, each shuffled and cut into batches, then the batches shuffled.

    >>> shuffled_batches([torch.tensor([1, 2]), torch.tensor([3])], 2, torch.Generator().manual_seed(1))
    [(1, tensor([3])), (0, tensor([2, 1]))]

    Returns: of each batch its bucket's number and its indices.
    """
    cut = [
        (number, rows)
        for number, members in enumerate(buckets)
        for rows in members[torch.randperm(len(members), generator=generator)].split(batch_size)
    ]
    return [cut[index] for index in torch.randperm(len(cut), generator=generator).tolist()]
