"""A search over a recipe's fields before its training: what it may try, and what it tried (tuning.json of a run)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TUNING = "tuning.json"
VALID = "valid"
"""The only split that a search is scored on."""


@dataclass(frozen=True)
class Factors:
    """What the recipe's own value may be multiplied by."""

    values: tuple[float, ...]

    def of(self, value: Any) -> list[Any]:
        """
        >>> Factors((0.5, 2)).of(100), Factors((0.5, 2)).of(0.003)
        ([50, 200], [0.0015, 0.006])
        """
        if isinstance(value, float):
            return [float(f"{value * factor:.3g}") for factor in self.values]
        return [max(1, round(value * factor)) for factor in self.values]


@dataclass(frozen=True)
class FieldChoices:
    """Values that may take the place of the recipe's own."""

    values: tuple[Any, ...]

    def of(self, value: Any) -> list[Any]:
        """
        >>> FieldChoices((0.0, 0.2)).of(0.1)
        [0.0, 0.2]
        """
        return list(self.values)


RATES = Factors((1 / 3, 3.0, 0.1, 10.0))
"""Of every task's learning rate, in this order."""
Space = Mapping[str, Factors | FieldChoices]
"""Fields of a recipe to what a search may set them to, `learning_rate` among them."""


@dataclass(frozen=True)
class TuningTrial:
    """One recipe that was tried, and its metric on valid; None where it diverged, or time was over before its end."""

    number: int
    fields: dict[str, Any]
    """Those in which it differs from the recipe that the search began with."""
    value: float | None
    seconds: float
    outcome: Literal["done", "diverged", "time over"] = "done"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A search and all its trials."""

    minutes: float
    seed: int
    metric: str
    lower_is_better: bool
    epochs: int
    """Of a trial, at most."""
    split: str = VALID
    trials: tuple[TuningTrial, ...] = ()
    chosen: int = 1
    """The number of the trial whose recipe was trained in full; 1 is the recipe as it came."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What it sets."""
