"""Quantities that follow one polynomial up to some size and another from there on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sympy import Expr, Integer, Piecewise

from porism.costing.fitting.basis import symbol
from porism.costing.fitting.samples import Formula, Sizes
from porism.costing.fitting.survey import Line, Survey, extrapolate, first_difference, polynomials_from, values_at
from porism.costing.fitting.tensor_grid import fit_polynomials


@dataclass(frozen=True)
class Threshold:
    """`letter < limit`, where the limit is a whole-numbered sum of other letters."""

    letter: str
    constant: int
    slopes: tuple[tuple[str, int], ...]

    def limit(self, sizes: Mapping[str, int]) -> int:
        return self.constant + sum(slope * sizes[other] for other, slope in self.slopes)

    def below(self, sizes: Mapping[str, int]) -> bool:
        return sizes[self.letter] < self.limit(sizes)

    def above(self, sizes: Mapping[str, int]) -> bool:
        return not self.below(sizes)

    def expression(self) -> Expr:
        limit = sum((slope * symbol(other) for other, slope in self.slopes), start=Integer(self.constant))
        # T <= W reads better than T < W + 1.
        return symbol(self.letter) <= limit - 1 if self.slopes and self.constant > 0 else symbol(self.letter) < limit


@dataclass(frozen=True)
class Branches:
    """One formula below a threshold and another from it on."""

    threshold: Threshold
    low: Formula
    high: Formula

    def __call__(self, sizes: Mapping[str, int]) -> Fraction:
        return (self.low if self.threshold.below(sizes) else self.high)(sizes)

    def expression(self) -> Expr:
        return Piecewise((self.low.expression(), self.threshold.expression()), (self.high.expression(), True))


def fit_branches(survey: Survey, name: str, letters: Sequence[str]) -> tuple[Formula, tuple[Sizes, ...]] | None:
    """Two polynomials with a threshold in one of these letters, each fitted and confirmed on its own side."""
    for letter in letters:
        threshold = _locate(survey, name, letter)
        if threshold is None:
            continue
        step = survey.step
        # Room to vary every letter on either side: a higher limit below, and a distance from it above.
        raised = {other: survey.base[other] * 4 for other, slope in threshold.slopes if slope > 0}
        margin = sum(8 * step[other] * slope for other, slope in threshold.slopes if slope > 0)
        beyond = -(-(threshold.limit(survey.base) + margin) // step[letter]) * step[letter]
        below, above = (survey.samples.restricted(side) for side in (threshold.below, threshold.above))
        low = _fit_side(Survey(below, survey.base | raised, survey.limits, survey.degree), name)
        high = low and _fit_side(Survey(above, survey.base | {letter: beyond}, survey.limits, survey.degree), name)
        if low and high:
            return Branches(threshold, low[0], high[0]), (*low[1], *high[1])
    return None


def find_threshold(line: Line, start: int, far: int, step: int, degree: int) -> int | None:
    """The first size from which another polynomial holds, when there are just two.

    >>> find_threshold(lambda T: max(0, T - 20), start=11, far=97, step=1, degree=4)
    21
    """
    for fitted, values, agrees in polynomials_from(line, start, step, degree):
        differs = first_difference(line, fitted, values, agrees, far, step)
        if _is_polynomial(line, differs, far, step, degree):
            return differs
    return None


def _is_polynomial(line: Line, start: int, far: int, step: int, degree: int) -> bool:
    """Is the line one polynomial from `start` to `far`, and at a size between?"""
    between = start + (far - start) // (2 * step) * step
    for order in range(degree + 1):
        fitted = [start + step * count for count in range(order + 1)]
        values = values_at(line, fitted)
        if values is None or fitted[-1] >= between:
            return False
        if all(line(size) == extrapolate(fitted, values, size) for size in (between, far)):
            return True
    return False


def _fit_side(survey: Survey, name: str) -> tuple[Formula, tuple[Sizes, ...]] | None:
    powers = {letter: found for letter in survey.base if (found := survey.powers_along(name, letter)) is not None}
    return fit_polynomials(survey, {name: powers}).get(name) if len(powers) == len(survey.base) else None


def _locate(survey: Survey, name: str, letter: str) -> Threshold | None:
    """Where a quantity changes along one letter, and how that size moves with the other letters."""
    here = _threshold_at(survey, name, letter, survey.base)
    if here is None:
        return None
    slopes: dict[str, int] = {}
    for other in survey.base:
        if other == letter:
            continue
        sizes = survey.sizes(other, 3)
        if sizes is None:
            return None
        there = _threshold_at(survey, name, letter, survey.base | {other: sizes[2]})
        if there is None or (there - here) % (sizes[2] - sizes[0]):
            return None
        slopes[other] = (there - here) // (sizes[2] - sizes[0])
    moving = tuple((other, slope) for other, slope in slopes.items() if slope)
    constant = here - sum(slope * survey.base[other] for other, slope in moving)
    return Threshold(letter, constant, moving)


def _threshold_at(survey: Survey, name: str, letter: str, base: Sizes) -> int | None:
    far = survey.far(letter)
    if far is None:
        return None

    def line(size: int) -> int | None:
        return survey.samples.value(name, base | {letter: size})

    return find_threshold(line, base[letter], far, survey.step[letter], survey.degree)
