"""From counts at a few sizes to a closed formula, proved at sizes that were held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sympy import Expr

from porism.cost.interpolation.branches import fit_branches
from porism.cost.interpolation.floors import LONGEST_JUMP, fit_floors
from porism.cost.interpolation.grid import fit_on_grid, polynomial_ladder
from porism.cost.interpolation.samples import Formula, Measure, Samples, Sizes
from porism.cost.interpolation.survey import Survey, base_sizes
from porism.errors import RecipeError

__all__ = ["Fitted", "Measure", "interpolate"]

_Found = tuple[Formula, tuple[Sizes, ...]]


@dataclass(frozen=True)
class Fitted:
    """A formula and the held-out sizes at which it was confirmed; or None, and why."""

    formula: Expr | None
    checked: tuple[dict[str, int], ...] = ()
    reason: str = ""


def interpolate(
    measure: Measure,
    letters: Sequence[str],
    start: Mapping[str, int] | None = None,
    degree: int = 4,
    step: Mapping[str, int] | None = None,
) -> dict[str, Fitted]:
    """The closed formula of every quantity that `measure` counts, with exact coefficients.

    >>> lstm = lambda size: {"flops": 8 * size["B"] * size["H"] * size["T"] * (size["D"] + size["H"])}
    >>> interpolate(lstm, ["B", "T", "D", "H"])["flops"].formula
    8*B*H*T*(D + H)
    >>> convolution = lambda size: {"outputs": size["B"] * ((size["T"] - 3) // 2 + 1)}
    >>> interpolate(convolution, ["B", "T"])["outputs"].formula
    B*(floor(T/2 + 1/2) - 1)
    >>> window = lambda size: {"pairs": size["T"] * min(size["T"], size["W"])}
    >>> interpolate(window, ["T", "W"])["pairs"].formula
    Piecewise((T**2, T <= W), (T*W, True))
    >>> bits = lambda size: {"flops": size["T"].bit_count()}
    >>> interpolate(bits, ["T"])["flops"].formula is None
    True

    Polynomials come first, then polynomials in floors (strides, padding to a multiple), then two polynomials with a
    threshold between them. `degree` bounds the power of a single letter. Sizes of a letter in `step` are multiples of
    its step, and the formula is then confirmed for such multiples only. Sizes at which the measure raises are
    passed over; when it raises at every size, the first error is raised.

    A formula agrees with every count that was made, at least two of them at sizes that played no part in finding it.
    """
    step = dict(step or {})
    _check_request(letters, start, degree, step)
    samples = Samples(measure)
    close = dict(start or base_sizes(letters, step, first=3, gap=8))
    first = _legal_base(samples, close, step)
    if first is None:
        raise samples.error or RecipeError("cost: nothing could be measured at any size. Give sizes to start from.")
    names = samples.names()
    survey = Survey(samples, first, step, degree)
    found, odd = _fit(survey, names, prune=True)
    if left := [name for name in names if name not in found and name not in odd]:
        # A term can vanish at the base by chance, and a branch can lie below it: look again from lower sizes.
        lower = _legal_base(samples, base_sizes(letters, step, first=2, gap=3), step)
        if lower is not None:
            again, branching = _fit(Survey(samples, lower, step, degree), left, prune=False)
            found |= again
            odd |= branching
    verdicts: dict[str, Fitted] = {}
    for twins in samples.twins(samples.names()):
        one = next((found[name] for name in twins if name in found), None)
        verdicts |= dict.fromkeys(twins, _verdict(samples, twins[0], one, odd.get(twins[0], ()), degree))
    return {name: verdicts[name] for name in samples.names()}


def _check_request(
    letters: Sequence[str], start: Mapping[str, int] | None, degree: int, step: Mapping[str, int]
) -> None:
    if len(set(letters)) != len(letters):
        raise RecipeError(f"cost: the letters {', '.join(letters)} name one twice. Name each letter once.")
    if start is not None and set(start) != set(letters):
        raise RecipeError(
            f"cost: sizes to start from came for {', '.join(start) or 'no letter'}. "
            f"Give one for each of {', '.join(letters) or 'no letter'}."
        )
    for letter, size in (*(start or {}).items(), *step.items()):
        if size < 1:
            raise RecipeError(f"cost: {letter}={size} is no size. Give a whole number from 1 on.")
    if degree < 0:
        raise RecipeError(f"cost: a degree of {degree} is none. Give a whole number from 0 on.")


def _legal_base(samples: Samples, base: Sizes, step: Mapping[str, int]) -> Sizes | None:
    """The base or, where the measure raises, a multiple of it that has more divisors, perhaps with one letter small."""
    for many in (1, 2, 4, 8, 12, 60):
        scaled = {letter: size * many for letter, size in base.items()}
        for sizes in (scaled, *(scaled | {letter: 4} for letter in base if step.get(letter, 1) == 1)):
            if samples.at(sizes) is not None:
                return sizes
    return None


def _fit(survey: Survey, names: Sequence[str], prune: bool) -> tuple[dict[str, _Found], dict[str, tuple[str, ...]]]:
    """What is found around one base, and the letters in which the quantities that are no polynomials are none."""
    degrees = {name: {letter: survey.degree_along(name, letter) for letter in survey.base} for name in names}
    odd = {
        name: letters
        for name, along in degrees.items()
        if (letters := tuple(letter for letter, degree in along.items() if degree is None))
    }
    plain = [name for name in names if name not in odd]
    highest = {letter: max((degrees[name][letter] or 0 for name in plain), default=0) for letter in survey.base}
    ladders = {letter: polynomial_ladder(survey, letter, degree) for letter, degree in highest.items()}
    found = fit_on_grid(survey, plain, ladders, prune) if plain else {}
    waiting = list(odd)
    while waiting:
        name = waiting[0]
        piecewise = fit_branches(survey, name, odd[name]) or fit_floors(survey, name, degrees[name])
        twins = next(group for group in survey.samples.twins(waiting) if name in group)
        if piecewise and survey.samples.agree(name, piecewise[0]):
            found |= dict.fromkeys(twins, piecewise)
        waiting = [other for other in waiting if other not in twins]
    return found, odd


def _verdict(samples: Samples, name: str, found: _Found | None, odd: Sequence[str], degree: int) -> Fitted:
    if not samples.everywhere(name):
        return Fitted(None, (), "it is counted at some sizes and not at others")
    # Counts made after this quantity was settled, for the sake of others, may still prove its formula wrong.
    if found is not None and samples.agree(name, found[0]):
        return Fitted(found[0].expression(), found[1])
    raised = f"; some sizes raise {type(samples.error).__name__}: {samples.error}" if samples.error else ""
    if odd:
        where = f"along {', '.join(odd)} the counts follow no polynomial of degree {degree} or less"
        reason = f"{where}, no floors of a period up to {LONGEST_JUMP} and no two polynomials with a threshold"
    else:
        reason = "no formula that fits the counts of a few sizes holds at the sizes held out"
    return Fitted(None, (), reason + raised)
