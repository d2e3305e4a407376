"""Quantities that go in steps along a letter: strides, padding to a multiple."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, product

from porism.costing.fitting.basis import Basis, BasisFunction, Floor, distinct_sizes, may_solve, solve
from porism.costing.fitting.samples import Formula, Sizes
from porism.costing.fitting.survey import Line, Survey, extrapolate, first_difference, polynomials_from, values_at
from porism.costing.fitting.tensor_grid import fit_on_grid, polynomial_basis

# Several floors at once are distinguished in a run of neighbouring sizes: of this period, three and one to check.
LONGEST_PERIOD = 16
WINDOW = 4 * LONGEST_PERIOD
# A single floor shows by its jumps, which need no run; they are looked for this many steps ahead.
LONGEST_JUMP = 512


def fit_floors(
    survey: Survey, name: str, powers: Mapping[str, range | None]
) -> tuple[Formula, tuple[Sizes, ...]] | None:
    """A polynomial in floors of the letters that have no powers, and in the other letters."""
    bases: dict[str, Basis] = {}
    for letter, found in powers.items():
        basis: Basis | None = None
        if found is not None:
            basis = polynomial_basis(survey, letter, found)
        elif (far := survey.far(letter)) is not None:
            line = partial(survey.value, name, letter)
            basis = find_floors(line, survey.base[letter], far, survey.step[letter], survey.degree)
        if basis is None:
            return None
        bases[letter] = basis
    held_out = survey.held_out({letter: basis.sizes for letter, basis in bases.items()})
    return fit_on_grid(survey, [name], bases, held_out).get(name)


def find_floors(line: Line, start: int, far: int, step: int, degree: int) -> Basis | None:
    """Floors of the letter in which the quantity is a polynomial, with sizes that tell them apart.

    >>> find_floors(lambda T: 3 * ((T - 3) // 2 + 1), start=11, far=97, step=1, degree=4).functions[1]
    BasisFunction(power=0, floors=((Floor(shift=1, divisor=2), 1),))
    """
    sizes: list[int] = []
    values: list[int] = []
    refuted: set[tuple[int, int]] = set()
    while len(sizes) < WINDOW:
        if len(sizes) == LONGEST_PERIOD and (basis := _find_jumps(line, start, far, step)) is not None:
            return basis
        size = start + step * len(sizes)
        value = line(size)
        if value is None:
            return None
        sizes.append(size)
        values.append(value)
        for period, order in product(range(2, LONGEST_PERIOD + 1), range(1, min(degree, 3) + 1)):
            if (order + 2) * period > len(sizes) or (period, order) in refuted:
                continue
            if not _vanishes(values, period, order):
                refuted.add((period, order))
            elif not _vanishes(values, 1, order):
                divisors = [count for count in range(2, period + 1) if period % count == 0]
                floors = [Floor(shift * step, count * step) for count in divisors for shift in range(count)]
                basis = _simplest(line, sizes, floors, order, [far])
                if basis is not None:
                    return basis
                refuted.add((period, order))
    return None


def _find_jumps(line: Line, start: int, far: int, step: int) -> Basis | None:
    """One floor of a long period, seen by the even distance of three jumps."""
    jumps: list[int] = []
    for _ in range(3):
        here = jumps[-1] if jumps else start
        jump = _next_jump(line, here, step) or _next_jump(line, here + 3 * step, step)
        if jump is None:
            return None
        jumps.append(jump)
    period = jumps[1] - jumps[0]
    if jumps[2] - jumps[1] != period:
        return None
    sizes = [jumps[0] + period * turn + step * aside for turn in range(5) for aside in (-1, 0, 2)]
    floors = [Floor(-jumps[0] % period, period)]
    beyond = jumps[0] + 7 * period + step
    bases = (_simplest(line, sizes, floors, order, [far, beyond]) for order in (1, 2, 3))
    return next((basis for basis in bases if basis is not None), None)


def _next_jump(line: Line, start: int, step: int) -> int | None:
    """The first size at which the polynomial of the sizes from `start` on no longer holds."""
    found = next(polynomials_from(line, start, step, degree=2), None)
    if found is None:
        return None
    fitted, values, agrees = found
    reach = 2
    while reach <= LONGEST_JUMP:
        differs = agrees + reach * step
        if line(differs) != extrapolate(fitted, values, differs):
            return first_difference(line, fitted, values, agrees, differs, step)
        reach *= 2
    return None


def _vanishes(values: Sequence[int], period: int, order: int) -> bool:
    """Are the differences of sizes one period apart, taken order + 1 times, all zero?"""
    differences = list(values)
    for _ in range(order + 1):
        differences = [later - now for now, later in zip(differences, differences[period:], strict=False)]
    return not any(differences)


def _simplest(
    line: Line, sizes: Sequence[int], floors: Sequence[Floor], order: int, beyond: Sequence[int]
) -> Basis | None:
    """The fewest functions from these floors that give the counts at these sizes and at those beyond."""
    values = values_at(line, sizes)
    if values is None:
        return None
    for many in (1, 2):
        best: list[BasisFunction] | None = None
        if many > 1 and order > 2:  # too many products to try them all
            break
        # Floors alone read better than floors and the letter, so they come first.
        for chosen, with_letter in product(combinations(floors, many), (False, True)):
            functions = _monomials(chosen, order, with_letter)
            rows = [[function(size) for function in functions] for size in sizes]
            weights = solve(rows, values) if may_solve(rows, values) else None
            if weights is None:
                continue
            used = [
                function
                for function, weight in zip(functions, weights, strict=True)
                if weight and function != BasisFunction(0)
            ]
            holds = all(
                line(size)
                == sum((w * function(size) for w, function in zip(weights, functions, strict=True)), Fraction(0))
                for size in beyond
            )
            if holds and (best is None or len(used) + 1 < len(best)):
                best = [BasisFunction(0), *used]
        if best is not None:
            picked = distinct_sizes(best, sizes)
            return None if picked is None else Basis(tuple(best), picked)
    return None


def _monomials(floors: Sequence[Floor], order: int, with_letter: bool) -> list[BasisFunction]:
    """Products of these floors, and of the letter, up to a total degree; the low degrees first."""
    exponents = product(range(order + 1 if with_letter else 1), *(range(order + 1) for _ in floors))
    return [
        BasisFunction(power, tuple((part, count) for part, count in zip(floors, counts, strict=True) if count))
        for power, *counts in sorted((e for e in exponents if sum(e) <= order), key=lambda e: (sum(e), e))
    ]
