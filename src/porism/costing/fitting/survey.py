"""Which sizes to measure at: small ones to fit from, far ones to be proved wrong at.

Sizes of different letters never coincide while fitting, and far sizes lie a prime number of steps away, so that no
quantity that repeats every few sizes is taken for a constant.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from math import prod

from sympy import nextprime

from porism.costing.fitting.samples import Limits, Samples, Sizes

Line = Callable[[int], int | None]

# Both parities, and no two gaps alike.
OFFSETS = (0, 1, 2, 4, 7, 11, 16, 22)
# How many steps beyond a letter's first size are tried when sizes raise.
REACH = 64
# No padding in common use goes to a multiple above this, so a far size reaches beyond it.
WIDEST_PADDING = 128


def extrapolate(sizes: Sequence[int], values: Sequence[int], size: int, lowest: int = 0) -> Fraction:
    """The polynomial of least degree through these values, somewhere else; no power in it is below the lowest.

    >>> extrapolate([1, 2, 4], [1, 4, 16], 10)
    Fraction(100, 1)
    >>> extrapolate([4], [16], 10, lowest=2)
    Fraction(100, 1)
    """
    total = Fraction(0)
    for here, value in zip(sizes, values, strict=True):
        others = [other for other in sizes if other != here]
        above = value * size**lowest * prod(size - other for other in others)
        total += Fraction(above, here**lowest * prod(here - other for other in others))
    return total


def values_at(line: Line, sizes: Sequence[int]) -> list[int] | None:
    """The counts at all of these sizes, or None when one is missing."""
    values = [value for size in sizes if (value := line(size)) is not None]
    return values if len(values) == len(sizes) else None


def polynomials_from(line: Line, start: int, step: int, degree: int) -> Iterator[tuple[list[int], list[int], int]]:
    """By rising degree, the polynomials through the sizes from `start` on that hold one size further.

    Each as the sizes it goes through, their values, and that further size.
    """
    for order in range(degree + 1):
        fitted = [start + step * count for count in range(order + 1)]
        values = values_at(line, fitted)
        if values is None:
            return
        agrees = fitted[-1] + step
        if line(agrees) == extrapolate(fitted, values, agrees):
            yield fitted, values, agrees


def first_difference(line: Line, fitted: Sequence[int], values: Sequence[int], size: int, other: int, step: int) -> int:
    """By halving: the size after `size` where the line leaves the polynomial of `values`, as it has at `other`."""
    while other - size > step:
        middle = size + (other - size) // (2 * step) * step
        if line(middle) == extrapolate(fitted, values, middle):
            size = middle
        else:
            other = middle
    return other


class Survey:
    """The sizes around one base: `sizes(letter, n)` to fit from, `far(letter)` and `held_out()` to check at."""

    def __init__(self, samples: Samples, base: Sizes, limits: Limits, degree: int) -> None:
        self.samples = samples
        self.base = base
        self.limits = limits
        self.step = {letter: limits.step_of(letter) for letter in base}
        self.degree = degree
        self._far: dict[str, int | None] = {}
        self._sizes: dict[str, list[int]] = {}
        self._untried: dict[str, Iterator[int]] = {}

    def value(self, name: str, letter: str, size: int) -> int | None:
        """A quantity on the line of one letter, with every other letter at its base."""
        return self.samples.value(name, self.base | {letter: size})

    def far(self, letter: str) -> int | None:
        """A size well outside: beyond four times the base, every other letter's base and the widest padding."""
        if letter not in self._far:
            start, step = self.base[letter], self.step[letter]
            beyond = (max(4 * start, max(self.base.values()) * 5 // 4) - start) // step
            first = nextprime(max(beyond, WIDEST_PADDING // step, 16))
            above = chain((first, first + 1), (-(-first // many) * many for many in (8, 12, 60)))
            below = (*(nextprime(first // part) for part in (2, 4)), 13, 9, 6, 5, 3, -1, -2, -3, -4, 2, 1)
            outside = (start + step * count for count in chain(above, below))
            tried = self.limits.unused(letter, [start]) if letter in self.limits.largest else outside
            self._far[letter] = next((x for x in tried if self.samples.at(self.base | {letter: x}) is not None), None)
        return self._far[letter]

    def sizes(self, letter: str, count: int) -> list[int] | None:
        """The first sizes of a letter that can be measured with every other letter at its base."""
        far = self.far(letter)
        known = self._sizes.setdefault(letter, [])
        if letter not in self._untried:
            start, step = self.base[letter], self.step[letter]
            # Beyond the usual offsets, any size will do, below the base as well.
            usual = chain(OFFSETS, (n for n in range(REACH) if n not in OFFSETS), range(-1, -start // step, -1))
            self._untried[letter] = (start + step * offset for offset in usual)
        while len(known) < count:
            size = next(self._untried[letter], None)
            if size is None:
                return None
            if size != far and self.samples.at(self.base | {letter: size}) is not None:
                known.append(size)
        return known[:count]

    def powers_along(self, name: str, letter: str, whole: bool = False) -> range | None:
        """The powers of one letter in a quantity, confirmed at the far size, or None where it is no polynomial.

        The fewest that will do: most quantities are multiples of the batch, and then one size of it is
        enough. With `whole` they start from 0.
        """
        far = self.far(letter)
        expected = None if far is None else self.value(name, letter, far)
        if far is None or expected is None:
            return None
        for count in range(1, self.degree + 2):
            sizes = self.sizes(letter, count)
            if sizes is None:
                return None
            values = values_at(partial(self.value, name, letter), sizes)
            if values is None:
                return None
            for lowest in range(1 if whole else self.degree + 2 - count):
                if extrapolate(sizes, values, far, lowest) == expected:
                    return range(lowest, lowest + count)
        return None

    def held_out(self, used: Mapping[str, Sequence[int]]) -> list[Sizes]:
        """Joint sizes to check at: three times the base, the letters in reverse order, five times, half.

        No letter has a size there that it has while fitting: terms can vanish at such sizes and go unseen.
        """
        letters = list(self.base)
        reverse = dict(zip(letters, reversed(self.base.values()), strict=True))
        patterns = (
            {letter: 3 * self.base[letter] for letter in letters},
            {letter: self.base[letter] + 2 * reverse[letter] for letter in letters},
            {letter: max(5 * self.base[letter], WIDEST_PADDING) for letter in letters},
        )
        found: list[Sizes] = []
        for number, pattern in enumerate(patterns):
            outside = {letter: max(size, (number + 1) * max(used[letter])) for letter, size in pattern.items()}
            outside |= self._small(used, number)
            fresh = (sizes for sizes in self._variants(outside, number) if sizes not in found)
            unused = (sizes for sizes in fresh if all(sizes[letter] not in used[letter] for letter in letters))
            found += islice((sizes for sizes in unused if self.samples.at(sizes) is not None), 1)
        half = {letter: max(self.base[letter] // self.step[letter] // 2, 1) * self.step[letter] for letter in letters}
        half = {letter: max(size, min(2, self.base[letter])) for letter, size in half.items()}
        half |= self._small(used, len(patterns))
        if (
            letters
            and all(half[letter] not in used[letter] for letter in letters)
            and self.samples.at(half) is not None
        ):
            found.append(half)
        return found

    def _small(self, used: Mapping[str, Sequence[int]], number: int) -> Sizes:
        """A size for each letter that goes so far only: another one each time, as long as there are others."""
        unused = {
            letter: self.limits.unused(letter, used[letter]) for letter in self.base if letter in self.limits.largest
        }
        return {letter: sizes[number % len(sizes)] for letter, sizes in unused.items() if sizes}

    def _variants(self, pattern: Sizes, number: int) -> Iterator[Sizes]:
        """The pattern moved to primes of steps; then, should that be illegal, with some letters at legal sizes."""
        moved: Sizes = {}
        for letter, target in pattern.items():
            if letter in self.limits.largest:
                moved[letter] = target
                continue
            steps = (target - self.base[letter]) // self.step[letter]
            moved[letter] = self.base[letter] + self.step[letter] * nextprime(max(steps, 12) + number)
        yield moved
        legal = {letter: far for letter in pattern if (far := self.far(letter)) is not None}
        for letter in legal:
            yield moved | {letter: legal[letter]}
        for letter in legal:
            for offset in (3, 5, 6, -1, -2, 2, 1):
                yield moved | {letter: self.base[letter] + offset * self.step[letter]}
        yield legal
        for letter in legal:
            for offset in (3, 5, 6, -1, -2, 2, 1):
                yield legal | {letter: self.base[letter] + offset * self.step[letter]}
