"""Batches that are made when they are read."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

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
