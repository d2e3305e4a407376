"""The contract of a task, as checks that a task of yours can be put through.

>>> check_task("graphs", checks=["recipes", "toml"]).failed
()
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from porism.errors import RecipeError, nearest
from porism.runs.recipe import Recipe
from porism.testing.report import Check, CheckReport, check_reaction, refuse_empty, run_checks
from porism.testing.task_contract import TASK_CHECKS
from porism.testing.task_trial import TaskTrial
from porism.training.task import Task


def check_task(
    task: type[Task] | str,
    *,
    recipes: Sequence[str | Recipe] | None = None,
    data: str | Path | None = None,
    inputs: Sequence[str] = (),
    bad_data: Mapping[str, str] | None = None,
    checks: Sequence[str] | None = None,
    expected_failed_checks: Mapping[str, str] | None = None,
    on_fail: Literal["raise", "warn"] | None = "raise",
    seed: int = 0,
) -> CheckReport:
    """Puts a task through every check, and raises CheckError where one fails.

    >>> print(check_task("graphs", checks=["recipes", "embedded"]))
    Graphs: 2 passed, 0 failed, 0 skipped
    pass     recipes
    pass     embedded

    - `task`: a class made from `porism.training.task.Task`, or the name of one of Porism's
    - `recipes`: names or recipes to try it with; the default recipe unless given. Small ones make it quick
    - `data`: what `load` is given; the embedded default unless given
    - `inputs`: what `predict` is given
    - `bad_data`: files that `load` must refuse, each with words that the message must have, such as "line 3"
    - `checks`: some of those that `task_checks` lists
    - `expected_failed_checks`: names with the reason why they fail; listed apart in the report

    Trainings are those of `porism train`, with a few steps an epoch and in a folder that is deleted afterwards. What is
    not given cannot be checked, and is reported as skipped, never as passed.
    """
    check_reaction(on_fail)
    trial = TaskTrial.of(task, recipes, data, inputs, bad_data, seed)
    report = run_checks(trial.kind.__name__, _chosen(trial, checks, expected_failed_checks), expected_failed_checks)
    if on_fail == "raise":
        report.raise_if_failed()
    elif on_fail == "warn" and report.failed:
        warnings.warn(str(report), stacklevel=2)
    return report


def task_checks(
    task: type[Task] | str,
    *,
    recipes: Sequence[str | Recipe] | None = None,
    data: str | Path | None = None,
    inputs: Sequence[str] = (),
    bad_data: Mapping[str, str] | None = None,
    seed: int = 0,
) -> list[tuple[str, Check]]:
    """The checks as pairs of a name and a function, for pytest.mark.parametrize; arguments as of `check_task`.

    >>> [name for name, check in task_checks("graphs")][:3]
    ['recipes', 'toml', 'embedded']

    Each function returns no number where the check passes, raises Skip with the reason where there is nothing to
    check, and Failure or the task's own error where it fails.
    """
    return _chosen(TaskTrial.of(task, recipes, data, inputs, bad_data, seed), None, None)


def _chosen(trial: TaskTrial, names: Sequence[str] | None, expected: Iterable[str] | None) -> list[tuple[str, Check]]:
    refuse_empty("checks", names, TASK_CHECKS)
    if unknown := [name for name in [*(names or ()), *(expected or ())] if name not in TASK_CHECKS]:
        raise RecipeError(f"check: there is no check {unknown[0]!r}. {nearest(unknown[0], list(TASK_CHECKS))}")

    def bound(check: Callable[[TaskTrial], tuple[float, float]]) -> Check:
        return lambda: check(trial)

    return [(name, bound(check)) for name, check in TASK_CHECKS.items() if names is None or name in names]
