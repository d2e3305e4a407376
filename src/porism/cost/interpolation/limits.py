"""Which sizes of a letter may be asked for, and at which to start."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from sympy import nextprime

from porism.cost.interpolation.samples import Sizes
from porism.errors import RecipeError

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
        for letter, size in (*self.step.items(), *self.largest.items()):
            if size < 1:
                raise RecipeError(f"cost: {letter}={size} is no size. Give a whole number from 1 on.")
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
        """May these sizes be asked for?

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
