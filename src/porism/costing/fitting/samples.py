"""What was counted at which sizes: each size is measured once, and sizes that cannot be are remembered as such."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from sympy import Expr, nextprime

from porism.costing.given_numbers import whole_sizes
from porism.errors import RecipeError

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
        """The same memory restricted to a window: outside of it no size is measured."""
        part = Samples(self._measure, lambda sizes: self._inside(sizes) and inside(sizes))
        part._whole = self._whole
        return part

    @property
    def calls(self) -> int:
        return len(self._whole._known)

    def at(self, sizes: Mapping[str, int]) -> Mapping[str, int] | None:
        """All quantities at these sizes, or None where they cannot be measured."""
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
        counts = [
            counted for key, counted in self._whole._known.items() if counted is not None and self._inside(dict(key))
        ]
        groups: dict[tuple[int, ...], list[str]] = {}
        for name in names:
            groups.setdefault(tuple(counted[name] for counted in counts if name in counted), []).append(name)
        return groups.values()

    def smallest(self) -> Sizes:
        """The smallest size of each letter at which anything was counted."""
        counted = [dict(key) for key, quantities in self._whole._known.items() if quantities is not None]
        return {letter: min(sizes[letter] for sizes in counted) for letter in counted[0]} if counted else {}

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


FEWEST_SIZES = 5
"""Those from 2 on: two to fit a line from, two to confirm at."""


@dataclass(frozen=True)
class Limits:
    """Letters that go in steps, and letters that go so far only.

    >>> limits = Limits(step={"D": 8}, largest={"L": 6})
    >>> limits.base(["B", "D", "L"])                       # no two letters come near each other
    {'B': 5, 'D': 16, 'L': 2}
    >>> limits.scaled({"B": 5, "D": 16, "L": 2}, 4)
    {'B': 20, 'D': 64, 'L': 2}
    """

    step: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole_sizes("multiples", self.step))
        object.__setattr__(self, "largest", whole_sizes("largest", self.largest))
        for letter, size in self.largest.items():
            least = FEWEST_SIZES * self.step_of(letter)
            if size < least:
                raise RecipeError(
                    f"cost: {letter} up to {size} leaves too few sizes to find a formula and confirm it. "
                    f"Let it go to {least} or further."
                )

    def step_of(self, letter: str) -> int:
        return self.step.get(letter, 1)

    def allow(self, sizes: Mapping[str, int]) -> bool:
        """May these sizes be requested?

        Of a letter with a largest a size of 1 is left out: a single layer is first and last at once, a special case.
        """
        return all(1 < sizes[letter] <= most for letter, most in self.largest.items())

    def without(self, letters: Container[str]) -> "Limits":
        """The same for the other letters."""
        step = {letter: size for letter, size in self.step.items() if letter not in letters}
        return Limits(step, {letter: size for letter, size in self.largest.items() if letter not in letters})

    def scaled(self, sizes: Mapping[str, int], many: int) -> Sizes:
        """Many times these sizes, but for letters that do not go that far."""
        return {letter: size if letter in self.largest else size * many for letter, size in sizes.items()}

    def unused(self, letter: str, used: Sequence[int]) -> list[int]:
        """The sizes of a letter with a largest that are not among these, the largest first."""
        step = self.step_of(letter)
        top = self.largest[letter] // step * step
        return [size for size in range(top, 1, -step) if size not in used]

    def base(self, letters: Sequence[str], first: int = 3, gap: int = 8) -> Sizes:
        """A prime for each letter, or a multiple of its step, far enough apart that `gap` steps do not meet another.

        >>> Limits(step={"D": 8}).base(["B", "T", "D"])
        {'B': 3, 'T': 11, 'D': 24}
        """
        sizes: Sizes = {}
        cursor = 2
        for letter in sorted((letter for letter in letters if letter in self.largest), key=self.largest.__getitem__):
            step = self.step_of(letter)
            room = (self.largest[letter] // step - FEWEST_SIZES + 2) * step
            sizes[letter] = min(-(-cursor // step) * step, room)
            cursor = sizes[letter] + 2 * step
        cursor = max(cursor, first) if sizes else first
        for letter in sorted((letter for letter in letters if letter not in self.largest), key=self.step_of):
            step = self.step_of(letter)
            sizes[letter] = nextprime(cursor - 1) if step == 1 else -(-cursor // step) * step
            cursor = sizes[letter] + gap * step
        return {letter: sizes[letter] for letter in letters}
