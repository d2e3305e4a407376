"""The contract of a layer, as checks that any nn.Module can be put through.

>>> report = check_layer(lambda D, H: torch.nn.Linear(D, H), "B D", on_fail=None)
>>> report.failed
()
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from porism.costing.terms import Terms
from porism.errors import RecipeError, nearest
from porism.testing.checks import CHECKS
from porism.testing.report import Check, CheckReport, check_reaction, refuse_empty, run_checks
from porism.testing.trial import Input, LayerTrial


def check_layer(
    layer: Callable[..., nn.Module] | nn.Module,
    *inputs: Input | Mapping[str, Input],
    naive: Callable[..., Any] | None = None,
    gradient: Callable[..., Mapping[str, Tensor]] | None = None,
    cost: Terms | None = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    dtypes: Sequence[torch.dtype] | None = None,
    devices: Sequence[str] | None = None,
    checks: Sequence[str] | None = None,
    expected_failed_checks: Mapping[str, str] | None = None,
    on_fail: Literal["raise", "warn"] | None = "raise",
    seed: int = 0,
) -> CheckReport:
    """Puts a layer through every check, and raises CheckError where one fails.

    >>> print(check_layer(lambda D, H: torch.nn.Linear(D, H), "B D", checks=["state_dict", "compile"]))
    Linear: 2 passed, 0 failed, 0 skipped
    pass     compile          0.00e+00 <= 1e-10
    pass     state_dict

    - `layer`: a function of letters that builds it at any sizes, or a module
    - `inputs`: as those of `porism.cost`: `"T B D"`, `"B T : int < V"`, tensors, functions of letters; a mapping
      names them
    - `naive(layer, *inputs)`: the same answer by loops over the equations, which autograd differentiates
    - `gradient(layer, dy, *inputs)`: the backward pass by hand, from the gradient dy of the answer, by names: those of
      parameters, and `input0`, `input1`, ... or the inputs' own names
    - `cost`: what it costs by hand
    - `sizes`: for each letter the sizes to try; 1, 2, 7 and 63 unless given
    - `dtypes`, `devices`: float32 and bfloat16, and the CPU with every CUDA device unless given
    - `checks`: some of those that `layer_checks` lists
    - `expected_failed_checks`: names with the reason why they fail; listed apart in the report

    What is not given cannot be checked, and is reported as skipped, never as passed.
    """
    check_reaction(on_fail)
    trial = LayerTrial(layer, inputs, naive, gradient, cost, dict(sizes or {}), dtypes, devices, seed)
    report = run_checks(trial.name, _chosen(trial, checks, expected_failed_checks), expected_failed_checks)
    if on_fail == "raise":
        report.raise_if_failed()
    elif on_fail == "warn" and report.failed:
        import warnings

        warnings.warn(str(report), stacklevel=2)
    return report


def layer_checks(
    layer: Callable[..., nn.Module] | nn.Module, *inputs: Input | Mapping[str, Input], seed: int = 0, **given: Any
) -> list[tuple[str, Check]]:
    """The checks as pairs of a name and a function, for pytest.mark.parametrize; arguments as of `check_layer`.

    >>> [name for name, check in layer_checks(torch.nn.Linear(3, 5), "B 3")][:3]
    ['naive', 'strides', 'gradcheck']

    Each function returns the error measured and the one tolerated, raises Skip with the reason where there is nothing
    to check, and Failure or the layer's own error where it fails.
    """
    keys = ("naive", "gradient", "cost", "sizes", "dtypes", "devices")
    if unknown := [key for key in given if key not in keys]:
        raise RecipeError(f"layer_checks has no argument {unknown[0]!r}. {nearest(unknown[0], keys)}")
    parts: dict[str, Any] = dict.fromkeys(keys) | given
    parts["sizes"] = dict(parts["sizes"] or {})
    return _chosen(LayerTrial(layer, inputs, **parts, seed=seed), None, None)


def _chosen(trial: LayerTrial, names: Sequence[str] | None, expected: Iterable[str] | None) -> list[tuple[str, Check]]:
    refuse_empty("checks", names, CHECKS)
    if unknown := [name for name in [*(names or ()), *(expected or ())] if name not in CHECKS]:
        raise RecipeError(f"check: there is no check {unknown[0]!r}. {nearest(unknown[0], list(CHECKS))}")

    def bound(check: Callable[[LayerTrial], tuple[float, float]]) -> Check:
        return lambda: check(trial)

    return [(name, bound(check)) for name, check in CHECKS.items() if names is None or name in names]
