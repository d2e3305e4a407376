"""The distribution that samples come from, as an alias table: a draw takes the same time however many words there are.

The table has a column for each of V words, all of the same width. A column belongs to its word up to the threshold and
to one other word, its alias, above it. A draw picks a column, and a height within it.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from porism.errors import ShapeError

POWER = 0.75
"""What frequencies are raised to: rare words are drawn more often than they occur."""


@dataclass(frozen=True)
class Noise:
    """Words to draw: their probabilities, and the table. All (V,).

    >>> noise = Noise.of_frequencies(torch.tensor([16, 1]))
    >>> noise.probabilities                                         # 16^0.75 is 8
    tensor([0.8889, 0.1111], dtype=torch.float64)
    >>> noise.draw((3, 5)).shape
    torch.Size([3, 5])
    """

    probabilities: Tensor
    thresholds: Tensor
    aliases: Tensor

    @classmethod
    def of_frequencies(cls, frequencies: Tensor, power: float = POWER) -> Self:
        """Words drawn in proportion to their frequencies raised to a power."""
        if frequencies.dim() != 1 or len(frequencies) == 0:
            raise ShapeError(
                f"skipgram: frequencies are {tuple(frequencies.shape)}, expected (V,). Give one number for each word."
            )
        if frequencies.is_complex() or frequencies.dtype is torch.bool or frequencies.requires_grad:
            kind = "with a gradient" if frequencies.requires_grad else f"{frequencies.dtype}"
            raise ShapeError(f"skipgram: frequencies are {kind}, expected constant numbers. Give the words' counts.")
        weights = frequencies.double().cpu()
        if not bool((weights.isfinite() & (weights > 0)).all()):
            raise ShapeError(
                f"skipgram: frequencies run from {weights.min():g} to {weights.max():g}, expected numbers above 0. "
                "Leave words that never occur out of the vocabulary."
            )
        weights = weights**power
        probabilities = weights / weights.sum()
        if not bool((probabilities > 0).all()):
            raise ShapeError(
                f"skipgram: frequencies to the power {power} are beyond the numbers. Choose a power such as {POWER}."
            )
        return cls(probabilities, *_table(probabilities))

    @classmethod
    def uniform(cls, vocabulary: int) -> Self:
        """Every word alike: no column has an alias."""
        ones = torch.ones(vocabulary, dtype=torch.float64)
        return cls(ones / vocabulary, ones, torch.arange(vocabulary))

    @property
    def vocabulary(self) -> int:
        return len(self.probabilities)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Words, each drawn independently of the others."""
        device = self.thresholds.device
        column = torch.randint(self.vocabulary, shape, generator=generator, device=device)
        height = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        return torch.where(height < self.thresholds[column], column, self.aliases[column])

    def to(self, device: torch.device) -> Self:
        """The same table on a device; itself where it is there already."""
        if self.thresholds.device == device:
            return self
        return type(self)(*(part.to(device) for part in (self.probabilities, self.thresholds, self.aliases)))


def _table(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Thresholds and aliases, by filling every column that is too low from one that is too high."""
    heights: list[float] = (probabilities * len(probabilities)).tolist()
    aliases = list(range(len(heights)))
    low = [word for word, height in enumerate(heights) if height < 1]
    high = [word for word, height in enumerate(heights) if height >= 1]
    thresholds = [1.0] * len(heights)
    # Whichever list runs out first, the columns that are left are full, up to rounding.
    while low and high:
        poor, rich = low.pop(), high[-1]
        thresholds[poor], aliases[poor] = heights[poor], rich
        heights[rich] -= 1 - heights[poor]
        if heights[rich] < 1:
            low.append(high.pop())
    return torch.tensor(thresholds, dtype=torch.float64), torch.tensor(aliases)
