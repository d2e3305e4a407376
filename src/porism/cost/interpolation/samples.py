"""What was counted at which sizes: each size is measured once, and sizes that cannot be are remembered as such."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from sympy import Expr

Sizes = dict[str, int]
Measure = Callable[[Mapping[str, int]], Mapping[str, int]]
Inside = Callable[[Mapping[str, int]], bool]


class Formula(Protocol):
    """Something that predicts a count, exactly, and can be written down."""

    def __call__(self, sizes: Mapping[str, int]) -> Fraction: ...
    def expression(self) -> Expr: ...


class Samples:
    """A measure with a memory.

    >>> samples = Samples(lambda sizes: {"flops": 2 * sizes["B"]})
    >>> samples.at({"B": 3}), samples.at({"B": 3}), samples.calls
    ({'flops': 6}, {'flops': 6}, 1)

    A size at which the measure raises gives None; the first error is kept in `error`.
    """

    def __init__(self, measure: Measure, inside: Inside = lambda sizes: True) -> None:
        self._measure = measure
        self._known: dict[tuple[tuple[str, int], ...], Mapping[str, int] | None] = {}
        self._inside = inside
        self._whole: Samples = self
        self.error: Exception | None = None

    def restricted(self, inside: Inside) -> "Samples":
        """The same memory seen through a window: outside of it there is nothing to measure."""
        part = Samples(self._measure, lambda sizes: self._inside(sizes) and inside(sizes))
        part._whole = self._whole
        return part

    @property
    def calls(self) -> int:
        return len(self._whole._known)

    def at(self, sizes: Mapping[str, int]) -> Mapping[str, int] | None:
        """All quantities at these sizes, or None where there is nothing to measure."""
        if min(sizes.values(), default=1) < 1 or not self._inside(sizes):
            return None
        return self._whole._recall(sizes)

    def value(self, name: str, sizes: Mapping[str, int]) -> int | None:
        """One quantity at these sizes."""
        counted = self.at(sizes)
        return None if counted is None else counted.get(name)

    def known(self, name: str) -> Iterator[tuple[Sizes, int]]:
        """Every size inside the window at which this quantity was counted so far."""
        for key, counted in self._whole._known.items():
            sizes = dict(key)
            if counted is not None and name in counted and self._inside(sizes):
                yield sizes, counted[name]

    def agree(self, name: str, formula: Formula) -> bool:
        """Does a formula give every count of a quantity that was made so far?"""
        return all(formula(sizes) == value for sizes, value in self.known(name))

    def twins(self, names: Sequence[str]) -> Iterable[list[str]]:
        """Quantities grouped by their counts so far: a stack of equal layers is worked out once."""
        groups: dict[tuple[int, ...], list[str]] = {}
        for name in names:
            groups.setdefault(tuple(value for _, value in self.known(name)), []).append(name)
        return groups.values()

    def names(self) -> list[str]:
        """Every quantity that was counted anywhere."""
        return list(dict.fromkeys(name for counted in self._whole._known.values() for name in counted or ()))

    def everywhere(self, name: str) -> bool:
        """Was this quantity counted wherever anything was?"""
        return all(name in counted for counted in self._whole._known.values() if counted is not None)

    def _recall(self, sizes: Mapping[str, int]) -> Mapping[str, int] | None:
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            try:
                self._known[key] = dict(self._measure(dict(sizes)))
            except Exception as error:  # a measure runs code that nobody here wrote, so it may raise anything
                self.error = self.error or error
                self._known[key] = None
        return self._known[key]
