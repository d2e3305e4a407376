"""From counts at a few sizes to a closed formula, proved at sizes that were held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sympy import Expr

from porism.costing.fitting.branches import fit_branches
from porism.costing.fitting.floors import LONGEST_JUMP, fit_floors
from porism.costing.fitting.samples import Formula, Limits, Measure, Samples, Sizes
from porism.costing.fitting.survey import Survey
from porism.costing.fitting.tensor_grid import Found, fit_polynomials
from porism.errors import RecipeError

__all__ = ["Fitted", "Measure", "interpolate"]


@dataclass(frozen=True)
class Fitted:
    """A formula and the held-out sizes at which it was confirmed; or None, and why."""

    formula: Expr | None
    checked: tuple[dict[str, int], ...] = ()
    reason: str = ""
    least: Mapping[str, int] = field(default_factory=dict)
    """Letters whose smallest sizes are no case of the formula, with the size from which it holds."""
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The sizes of each letter between which the formula was confirmed: from the smallest that was counted to the
    largest that was held out."""
    differs_at: str = ""
    """A condition on sizes inside of them under which the count is another one: "T=64", "C=O"."""


def interpolate(
    measure: Measure,
    letters: Sequence[str],
    start: Mapping[str, int] | None = None,
    degree: int = 4,
    limits: Limits | None = None,
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
    threshold between them. `degree` bounds the power of a single letter; `limits` are letters that go in steps, whose
    formula is then confirmed for multiples only, and letters that go so far only. Sizes at which the measure raises
    are passed over; when it raises at every size, the first error is raised.

    A formula agrees with every count that was made, at least two of them at sizes that played no part in finding it.
    The smallest size of each letter is counted last, since code often goes another way there (torch lays out a batch of
    one as it likes); where that is no case of the formula, `least` says from where on it holds.
    """
    limits = limits or Limits()
    _check_request(letters, start, degree)
    samples = Samples(measure, limits.allow)
    first = _legal_base(samples, dict(start or limits.base(letters)), limits)
    if first is None:
        raise samples.error or RecipeError("cost: the target could be measured at no size. Give sizes to start from.")
    names = samples.names()
    survey = Survey(samples, first, limits, degree)
    found, odd = _fit(survey, names, whole=False, prune=True)

    def left() -> list[str]:
        return [name for name in names if name not in found and name not in odd and samples.everywhere(name)]

    if waiting := left():
        # What is a multiple of a letter at the base may be none elsewhere: look again for all its powers.
        again, branching = _fit(survey, waiting, whole=True, prune=True)
        found, odd = found | again, odd | branching
    if (waiting := left()) and (lower := _legal_base(samples, limits.base(letters, first=2, gap=3), limits)):
        # A term can vanish at the base by chance, and a branch can lie below it: look again from lower sizes.
        again, branching = _fit(Survey(samples, lower, limits, degree), waiting, whole=True, prune=False)
        found, odd = found | again, odd | branching
    verdicts: dict[str, Fitted] = {}
    for twins in samples.twins(samples.names()):
        one = next((found[name] for name in twins if name in found), None)
        verdicts |= dict.fromkeys(twins, _verdict(samples, twins[0], one, odd.get(twins[0], ()), degree))
    verdicts = {name: verdicts[name] for name in samples.names()}
    formulas = {
        name: found[name][0] for name, fitted in verdicts.items() if name in found and fitted.formula is not None
    }
    least = _least(survey, formulas)
    smallest = samples.smallest()
    ranged = {name: _with_ranges(fitted, least.get(name, {}), smallest) for name, fitted in verdicts.items()}
    return {name: _from_corner(samples, name, formulas.get(name), fitted) for name, fitted in ranged.items()}


def _from_corner(samples: Samples, name: str, formula: Formula | None, fitted: Fitted) -> Fitted:
    """With ranges that begin at the sizes held out, where the formula fails with all letters at their smallest.

    Each letter was small beside large others; a condition on a product of sizes (B T > 3) fails where all are.
    """
    if formula is None or not fitted.ranges:
        return fitted
    corner = {letter: low for letter, (low, _) in fitted.ranges.items()}
    counted = samples.at(corner)
    if counted is None or name not in counted or formula(corner) == counted[name]:
        return fitted
    held_out = {letter: min(sizes[letter] for sizes in fitted.checked) for letter in corner}
    return replace(fitted, ranges={letter: (held_out[letter], high) for letter, (_, high) in fitted.ranges.items()})


def _with_ranges(fitted: Fitted, least: Sizes, smallest: Sizes) -> Fitted:
    if fitted.formula is None or not fitted.checked:
        return replace(fitted, least=least)
    ranges = {
        letter: (max(size, least.get(letter, 1)), max(sizes[letter] for sizes in fitted.checked))
        for letter, size in smallest.items()
    }
    return replace(fitted, least=least, ranges=ranges)


def _least(survey: Survey, formulas: Mapping[str, Formula]) -> dict[str, Sizes]:
    """For formulas that do not hold at the smallest size of a letter: the first size from which on they do."""
    least: dict[str, Sizes] = {}
    for letter, step in survey.step.items():
        wrong = set(formulas)
        for size in range(step, survey.base[letter], step):
            sizes = survey.base | {letter: size}
            counted = survey.samples.at(sizes)
            if counted is None:
                break
            wrong = {name for name in wrong if name in counted and formulas[name](sizes) != counted[name]}
            for name in wrong:
                least.setdefault(name, {})[letter] = size + step
            if not wrong:
                break
    return least


def _check_request(letters: Sequence[str], start: Mapping[str, int] | None, degree: int) -> None:
    if len(set(letters)) != len(letters):
        raise RecipeError(f"cost: the letters {', '.join(letters)} name one twice. Name each letter once.")
    if start is not None and set(start) != set(letters):
        raise RecipeError(
            f"cost: sizes to start from came for {', '.join(start) or 'no letter'}. "
            f"Give one for each of {', '.join(letters) or 'no letter'}."
        )
    for letter, size in (start or {}).items():
        if size < 1:
            raise RecipeError(f"cost: {letter}={size} is no size. Give a whole number from 1 on.")
    if degree < 0:
        raise RecipeError(f"cost: a degree of {degree} is none. Give a whole number from 0 on.")


def _legal_base(samples: Samples, base: Sizes, limits: Limits) -> Sizes | None:
    """The base or, where the measure raises, a multiple of it that has more divisors, perhaps with one letter small."""
    for many in (1, 2, 4, 8, 12, 60):
        scaled = limits.scaled(base, many)
        for sizes in (scaled, *(scaled | {letter: 4} for letter in base if limits.step_of(letter) == 1)):
            if samples.at(sizes) is not None:
                return sizes
    return None


def _fit(
    survey: Survey, names: Sequence[str], whole: bool, prune: bool
) -> tuple[dict[str, Found], dict[str, tuple[str, ...]]]:
    """What is found around one base, and the letters in which the quantities that are no polynomials are none."""
    samples = survey.samples
    powers = {name: {letter: survey.powers_along(name, letter, whole) for letter in survey.base} for name in names}
    odd = {
        name: letters
        for name, along in powers.items()
        if (letters := tuple(letter for letter, found in along.items() if found is None))
    }
    plain = {
        name: {letter: found for letter, found in along.items() if found is not None}
        for name, along in powers.items()
        if name not in odd
    }
    found = fit_polynomials(survey, plain, prune)
    waiting = [name for name in odd if samples.everywhere(name)]
    while waiting:
        name = waiting[0]
        piecewise = fit_branches(survey, name, odd[name]) or fit_floors(survey, name, powers[name])
        twins = next(group for group in samples.twins(waiting) if name in group)
        if piecewise and samples.agree(name, piecewise[0]):
            found |= dict.fromkeys(twins, piecewise)
        waiting = [other for other in waiting if other not in twins]
    return found, odd


def _verdict(samples: Samples, name: str, found: Found | None, odd: Sequence[str], degree: int) -> Fitted:
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
