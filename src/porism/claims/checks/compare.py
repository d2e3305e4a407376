"""Numbers that were found beside numbers that a form gives."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from porism.claims.claim import Finding

Case = tuple[str, Any, Any]
"""Where; what is true there; what the form gives. Numbers, or tensors of them."""

ROUNDING = 1e-12
"""Relative error that float64 may bring."""

ABOUT = 0.1
"""What "about equal" means where a source does not say: within a tenth."""


@dataclass(frozen=True)
class Impossible:
    """What a form gives where it cannot be computed."""

    why: str


def tried(form: Callable[..., Any], *arguments: Any) -> Any:
    """What a form gives; Impossible where its shapes do not fit together or a matrix has no inverse.

    >>> tried(lambda a: a @ a, torch.ones(2, 3)).why
    'mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)'
    """
    try:
        return form(*arguments)
    except (RuntimeError, ArithmeticError, IndexError, ValueError) as error:
        return Impossible(str(error).splitlines()[0])


def compared(cases: Iterable[Case], tolerance: float = ROUNDING) -> Finding:
    """The largest difference over all cases, as a part of the largest number that is true there (at least 1e-300).

    >>> compared([("at 2", 4.0, 2.0**2), ("at 3", 9.0, 3.0**2)]).agrees
    True

    A form that gives another shape is infinitely far away, and one that gives no number too. Where a form has another
    shape in every case in which it is wrong, the finding is not computable.
    """
    worst, seen, evidence, wrong = -1.0, 0, "", []
    for where, true, given in cases:
        seen += 1
        error = float("inf") if isinstance(given, Impossible) else difference(_tensor(true), _tensor(given))
        # Not so small that it is rounding, nor NaN.
        if not error <= tolerance:
            wrong.append(isinstance(given, Impossible) or _tensor(true).shape != _tensor(given).shape)
        if error > worst:
            worst, evidence = error, f"{where}: {_comparison(true, given)}"
    if not seen:
        return Finding(float("nan"), tolerance, "no value was compared")
    plural = "case" if seen == 1 else "cases"
    if worst <= tolerance:
        return Finding(
            worst, tolerance, f"equal in {seen} {plural}, to {worst:.0e}" if worst else f"equal in {seen} {plural}"
        )
    return Finding(worst, tolerance, evidence, computable=not all(wrong))


def counted_equal(cases: Iterable[tuple[str, int, Any]]) -> Finding:
    """The number of cases in which whole numbers differ; evidence is the first of them.

    >>> counted_equal([("D=3", 27, 3 * 3**2), ("D=5", 75, 3 * 5**2)]).evidence
    'equal in 2 cases'
    """
    listed = list(cases)
    wrong = [case for case in listed if case[1] != case[2]]
    if not listed:
        return Finding(float("nan"), 0, "no operation was counted")
    if not wrong:
        return Finding(0, 0, f"equal in {len(listed)} case{'s' if len(listed) > 1 else ''}")
    where, true, given = wrong[0]
    return Finding(len(wrong), 0, f"{where}: {true:,} counted, {_number(float(given))} stated")


def difference(true: Tensor, given: Tensor) -> float:
    """The largest difference, as a part of the largest number of `true`; infinite for another shape or no number."""
    if true.shape != given.shape:
        return float("inf")
    error = float((true - given).abs().max() / true.abs().max().clamp(min=1e-300)) if true.numel() else 0.0
    return error if error == error else float("inf")


def _tensor(value: Any) -> Tensor:
    return value.detach().double() if isinstance(value, Tensor) else torch.tensor(_floats(value), dtype=torch.float64)


def _floats(value: Any) -> Any:
    """Numbers of SymPy among them."""
    return [_floats(item) for item in value] if isinstance(value, Sequence) else float(value)


def _comparison(true: Any, given: Any) -> str:
    """Both, or the place where they differ most."""
    if isinstance(given, Impossible):
        return f"{given.why}"
    one, other = _tensor(true), _tensor(given)
    if one.shape != other.shape:
        return f"{_size(one)} is true, {_size(other)} stated"
    if one.numel() == 1:
        return f"{_number(one.item())} is true, {_number(other.item())} stated"
    at = int((one - other).abs().nan_to_num(torch.inf).argmax())
    place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), one.shape))
    values = (_number(x.flatten()[at].item()) for x in (one, other))
    return f"{next(values)} is true at ({place}), {next(values)} stated"


def _size(x: Tensor) -> str:
    return " by ".join(map(str, x.shape)) if x.ndim else "one number"


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) < 1e15 and value == int(value) else f"{value:.4g}"


def answered(cases: Iterable[tuple[str, bool, bool]]) -> Finding:
    """The number of cases in which the answer that is true and the one that a form gives differ.

    >>> answered([("Is 1 odd?", True, True), ("Is 2 odd?", False, True)]).evidence
    'Is 2 odd? No is true, yes stated; wrong in 1 of 2 cases'
    """
    listed = list(cases)
    wrong = [case for case in listed if case[1] != case[2]]
    if not listed:
        return Finding(float("nan"), 0, "no case was given")
    if not wrong:
        return Finding(0, 0, f"the same answer in {len(listed)} cases")
    where, true, given = wrong[0]
    evidence = f"{where} {_word(true).capitalize()} is true, {_word(given)} stated"
    return Finding(len(wrong), 0, f"{evidence}; wrong in {len(wrong)} of {len(listed)} cases")


def _word(answer: bool) -> str:
    return "yes" if answer else "no"


def where(
    assumed: Callable[..., bool], stated: Callable[..., Any], otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """A statement where its assumption is met, and what is true elsewhere.

    >>> work = where(lambda T, D: D <= T, lambda T, D: T * T * D, lambda T, D: T * D * D)
    >>> work(10, 2), work(2, 10)
    (200, 200)
    """
    return lambda *sizes: stated(*sizes) if assumed(*sizes) else otherwise(*sizes)


def slope(count: Callable[[int], float], sizes: Sequence[int]) -> float:
    """The exponent between the two largest sizes: the slope of log count over log size.

    >>> round(slope(lambda n: 3 * n**2 + 5 * n, [10, 10_000, 1_000_000]), 3)
    2.0
    """
    before, last = sizes[-2:]
    return math.log(count(last) / count(before)) / math.log(last / before)
