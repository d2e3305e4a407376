"""Is every gradient by hand right? Each layer's `check.py` says what to compare, this file compares."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import torch
from torch import Tensor

from porism.errors import RecipeError
from porism.layers.cases import LAYERS, GradientCase
from porism.testing.report import CheckResult

AUTOGRAD_TOLERANCE = 1e-10

DIFFERENCES_TOLERANCE = 1e-6

STEP = 1e-5


def gradients(names: Sequence[str] | None = None, seed: int = 0) -> list[CheckResult]:
    """Compares the gradients by hand of the named layers, or of all, with autograd and with finite differences.

    >>> {check.verdict for check in gradients(["readout"])}
    {'pass'}
    """
    checks = []
    for name in LAYERS if names is None else names:
        if name not in LAYERS:
            raise RecipeError(f"check: there is no layer {name!r}. Choose from {', '.join(LAYERS)}.")
        for case in import_module(f"{LAYERS[name]}.check").cases(seed):
            checks += check_case(case, f"{name}.{case.name}")
    return checks


def check_case(case: GradientCase, name: str) -> list[CheckResult]:
    """Two checks for every variable of a case."""
    autograd = by_autograd(case.function, case.at)
    differences = by_differences(case.function, case.at)
    checks = []
    for variable in case.at:
        hand = case.by_hand[variable]
        checks.append(_compare(f"{name}.d{variable}.autograd", hand, autograd[variable], AUTOGRAD_TOLERANCE))
        checks.append(_compare(f"{name}.d{variable}.differences", hand, differences[variable], DIFFERENCES_TOLERANCE))
    return checks


def by_autograd(function: Callable[..., Tensor], at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    variables = [value.detach().requires_grad_() for value in at.values()]
    return dict(zip(at, torch.autograd.grad(function(*variables), variables), strict=True))


@torch.no_grad()
def by_differences(function: Callable[..., Tensor], at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Central differences: (f(v + step) - f(v - step)) / (2 step), one element of one variable at a time."""
    point = {name: value.detach().clone() for name, value in at.items()}
    slopes = {name: torch.empty_like(value) for name, value in point.items()}
    for name, value in point.items():
        flat, slope = value.view(-1), slopes[name].view(-1)
        for i in range(len(flat)):
            here = flat[i].clone()
            flat[i] = here + STEP
            above = function(*point.values())
            flat[i] = here - STEP
            below = function(*point.values())
            flat[i] = here
            slope[i] = (above - below) / (2 * STEP)
    return slopes


@torch.no_grad()
def relative_error(found: Tensor, expected: Tensor) -> float:
    """The largest difference, as a part of the largest value expected."""
    if found.shape != expected.shape:
        return float("inf")
    largest = expected.abs().max()
    return float((found - expected).abs().max() / torch.where(largest > 0, largest, 1.0))


def _compare(name: str, found: Tensor, expected: Tensor, tolerance: float) -> CheckResult:
    measured = relative_error(found, expected)
    # Written so that a NaN fails.
    return CheckResult(name, "pass" if measured <= tolerance else "fail", measured, tolerance)
