"""Features that stay in their file: rows are mapped when they are needed, so that memory does not grow with the nodes.

For dense features of an .npz that is not compressed. The file is read once from end to end before training: its numbers
are checked, and what standardises them is summed up.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError
from porism.tasks.blocks.mapped_array import MappedArray

BLOCK = 2**22
"""Bytes that are read at a time."""
MIB = 2**20


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features (N, D) in a file, of which some rows at a time are in memory, in 32 bits."""

    array: MappedArray
    transform: Callable[[Tensor], Tensor] = torch.Tensor.float
    """What is done to rows once they are read."""

    @property
    def path(self) -> Path:
        return self.array.path

    @property
    def shape(self) -> tuple[int, int]:
        height, width = self.array.stored.shape
        return height, width

    @property
    def mebibytes(self) -> int:
        """What they would take in memory, in 32 bits."""
        return math.ceil(4 * math.prod(self.shape) / MIB)

    def to(self, device: torch.device | str) -> Self:
        """Themselves: rows are moved once they are read."""
        return self

    def transformed(self, transform: Callable[[Tensor], Tensor]) -> Self:
        """The same with something done to rows, each by itself."""
        return replace(self, transform=transform)

    def rows(self, nodes: Tensor) -> Tensor:
        """The features of some nodes, in memory: (n,) -> (n, D)."""
        return self.transform(_in_32_bits(self.array.map()[nodes.numpy()]))

    def blocks(self) -> Iterator[Tensor]:
        """All rows in order, some at a time."""
        for raw in self._raw_blocks():
            yield self.transform(_in_32_bits(raw))

    def check(self) -> "FeatureSums":
        """Read all of them: refuse those that are damaged or not finite, and sum up the others."""
        sums = FeatureSums.none(self.shape[1])
        for raw in self.array.checked(self._raw_blocks(), "features"):
            x = _in_32_bits(raw)
            bad = (~x.isfinite()).nonzero()
            if len(bad):
                row, column = bad[0].tolist()
                raise DataError(
                    f"{self.path}: the feature of [node, column] {[sums.count + row, column]} is "
                    f"{float(x[row, column]):g}, expected finite numbers. Remove or replace it."
                )
            sums = sums.with_rows(x)
        return sums

    def _raw_blocks(self) -> Iterator[NDArray[Any]]:
        height, width = self.shape
        step = max(1, BLOCK // (width * self.array.stored.dtype.itemsize))
        for first in range(0, height, step):
            yield self.array.map()[first : first + step]


@dataclass(frozen=True)
class FeatureSums:
    """What is known of the rows that were read: how many, the mean of each column, the squared distances from it."""

    count: int
    mean: Tensor
    squares: Tensor
    not_zero: int
    only_marks: bool
    """Whether all are 0 or 1."""

    @classmethod
    def none(cls, width: int) -> "FeatureSums":
        return cls(0, torch.zeros(width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64), 0, True)

    def with_rows(self, rows: Tensor) -> "FeatureSums":
        """Chan, Golub and LeVeque's sums over two parts: no large numbers are subtracted from one another."""
        x = rows.double()
        count, mean = self.count + len(x), x.mean(0)
        away = mean - self.mean
        return FeatureSums(
            count,
            self.mean + away * (len(x) / count),
            self.squares + (x - mean).square().sum(0) + away.square() * (self.count * len(x) / count),
            self.not_zero + int((rows != 0).sum()),
            self.only_marks and bool(((rows == 0) | (rows == 1)).all()),
        )

    @property
    def std(self) -> Tensor:
        return (self.squares / self.count).sqrt()

    @property
    def share(self) -> float:
        """Of features that are not zero."""
        return self.not_zero / (self.count * len(self.mean))


def _in_32_bits(rows: NDArray[Any]) -> Tensor:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return torch.from_numpy(np.array(rows, dtype=np.float32))
