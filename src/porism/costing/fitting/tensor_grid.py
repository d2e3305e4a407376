"""The joint fit: from a basis a letter to a formula in all letters, at as few sizes as the formula has terms.

The products of functions form a grid. It is searched from the corner outwards, and a product is tried only when every
product just below it turned out to matter: letters that never multiply each other are never varied together.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from porism.costing.fitting.basis import Basis, BasisFunction, Combination
from porism.costing.fitting.samples import Formula, Samples, Sizes
from porism.costing.fitting.survey import Survey

Index = tuple[int, ...]
Found = tuple[Formula, tuple[Sizes, ...]]
"""A formula and the held-out sizes that confirm it."""


class TensorGrid:
    """Fits several quantities from the same sizes; `probe` is one size far outside that says when to stop."""

    def __init__(self, samples: Samples, bases: Mapping[str, Basis], names: Sequence[str], probe: Sizes) -> None:
        self._samples = samples
        self._letters = tuple(bases)
        self._bases = tuple(bases.values())
        self._probe = probe
        self._surplus: dict[str, dict[Index, Fraction]] = {name: {} for name in names}
        self._steps: dict[tuple[int, ...], list[list[Fraction]]] = {}
        self._weights: dict[tuple[tuple[int, ...], Index], Fraction] = {}
        self.open = set(names)

    def search(self, prune: bool, degree: int) -> None:
        """Go outwards, level by level, until every quantity agrees with its count at the probe or no level is left.

        With `prune` off every product up to that total degree is tried: more measurements, and none left out.
        """
        active: set[Index] = set()
        heights = [len(basis.functions) for basis in self._bases]
        for level in range(sum(heights) - len(heights) + 1):
            if not self.open or (not prune and level > degree):
                return
            for index in _at_level(heights, level):
                # A letter's own line has settled that all its functions matter, whatever the corner's counts say.
                on_a_line = sum(map(bool, index)) <= 1
                needed = on_a_line or not prune or all(below in active for below in _just_below(index))
                if needed and (self._extend(index) or on_a_line):
                    active.add(index)
            self._close()

    def formula(self, name: str) -> Combination:
        """The formula of a quantity, as a combination of functions."""
        terms: dict[Index, Fraction] = {}
        for index, surplus in self._surplus[name].items():
            rows = [basis.weights[j] for basis, j in zip(self._bases, index, strict=True)]
            for lower in product(*(range(len(row)) for row in rows)):
                weight = surplus * prod(row[j] for row, j in zip(rows, lower, strict=True))
                terms[lower] = terms.get(lower, Fraction(0)) + weight
        functions = (
            (tuple(basis.functions[j] for basis, j in zip(self._bases, index, strict=True)), weight)
            for index, weight in terms.items()
            if weight
        )
        return Combination(self._letters, frozenset(functions))

    def _extend(self, index: Index) -> bool:
        """Measure at one more size; does any open quantity differ there from what is known of it?"""
        sizes = {letter: basis.sizes[j] for letter, basis, j in zip(self._letters, self._bases, index, strict=True)}
        matters = False
        for name in sorted(self.open):
            counted = self._samples.value(name, sizes)
            if counted is None:
                self.open.discard(name)
                self._surplus.pop(name)
            elif surplus := counted - self._predict(name, sizes):
                self._surplus[name][index] = surplus
                matters = True
        return matters

    def _close(self) -> None:
        for name in sorted(self.open):
            if self._predict(name, self._probe) == self._samples.value(name, self._probe):
                self.open.discard(name)

    def _predict(self, name: str, sizes: Sizes) -> Fraction:
        there = tuple(sizes[letter] for letter in self._letters)
        return sum((s * self._weight(there, index) for index, s in self._surplus[name].items()), Fraction(0))

    def _weight(self, sizes: tuple[int, ...], index: Index) -> Fraction:
        """What a unit of surplus weighs at these sizes: the same for all quantities."""
        if (sizes, index) not in self._weights:
            if sizes not in self._steps:
                self._steps[sizes] = [basis.steps(size) for basis, size in zip(self._bases, sizes, strict=True)]
            steps = (values[j] for values, j in zip(self._steps[sizes], index, strict=True))
            self._weights[sizes, index] = prod(steps, start=Fraction(1))
        return self._weights[sizes, index]

    def fitted(self) -> list[str]:
        """The quantities that agree with their count at the probe."""
        return [name for name in self._surplus if name not in self.open]


def _at_level(heights: Sequence[int], level: int) -> list[Index]:
    if not heights:
        return [()] if level == 0 else []
    return [
        (first, *rest) for first in range(min(heights[0], level + 1)) for rest in _at_level(heights[1:], level - first)
    ]


def _just_below(index: Index) -> list[Index]:
    return [(*index[:i], index[i] - 1, *index[i + 1 :]) for i in range(len(index)) if index[i]]


def polynomial_basis(survey: Survey, letter: str, powers: range) -> Basis | None:
    """Powers of a letter, where there are as many sizes of it that can be measured."""
    sizes = survey.sizes(letter, len(powers))
    return None if sizes is None else Basis(tuple(BasisFunction(power) for power in powers), tuple(sizes))


def fit_polynomials(survey: Survey, powers: Mapping[str, Mapping[str, range]], prune: bool = True) -> dict[str, Found]:
    """Joint formulas of quantities in given powers of each letter. All share the sizes to fit from and to check at."""
    groups: dict[tuple[range, ...], list[str]] = {}
    for name, along in powers.items():
        groups.setdefault(tuple(along[letter] for letter in survey.base), []).append(name)
    fitting: list[tuple[dict[str, Basis], list[str]]] = []
    for ranges, names in groups.items():
        tried = {letter: polynomial_basis(survey, letter, r) for letter, r in zip(survey.base, ranges, strict=True)}
        bases = {letter: basis for letter, basis in tried.items() if basis is not None}
        if len(bases) == len(tried):
            fitting.append((bases, names))
    used = {letter: max((bases[letter].sizes for bases, _ in fitting), key=len, default=()) for letter in survey.base}
    held_out = survey.held_out(used) if fitting else []
    found: dict[str, Found] = {}
    for bases, names in fitting:
        found |= fit_on_grid(survey, names, bases, held_out, prune)
    return found


def fit_on_grid(
    survey: Survey, names: Sequence[str], bases: Mapping[str, Basis], held_out: Sequence[Sizes], prune: bool = True
) -> dict[str, Found]:
    """Joint formulas with the held-out sizes that confirm them; none for a quantity that differs at any count."""
    if len(held_out) < 3 and survey.base:
        return {}
    # The first held-out size says when to stop, so it is no proof; the others are compared afterwards only.
    probe, confirming = (held_out[0], tuple(held_out[1:])) if held_out else ({}, ())
    grid = TensorGrid(survey.samples, bases, names, probe)
    grid.search(prune, survey.degree)
    fitted = grid.fitted()
    found: dict[str, Found] = {}
    for twins in survey.samples.twins(fitted):
        formula = grid.formula(twins[0])
        if survey.samples.agree(twins[0], formula):
            found |= dict.fromkeys(twins, (formula, confirming))
    return found
