"""One formula for one recipe: the command line, a run and its report say the same, and it counts every parameter."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, get_args, get_type_hints

import pytest
import sympy
import torch

from porism.api.cost import cost_of, resolve
from porism.costing.counting.target import Target
from porism.costing.fitting.basis import symbol
from porism.costing.subject import CostSubject
from porism.costing.value_table import LONGEST_FORMULA
from porism.runs.recipe import settings
from porism.tasks import TASKS, find
from porism.training.cost_table import COST_KEYS, cost_table
from porism.training.recipe_key import OF_TRAINING
from porism.training.session import count_parameters
from porism.training.task import Task

NEEDS_DOWNLOAD = ("sentiment/bert", "sentiment/bert-published")
NAMES = [f"{task}/{recipe}" for task in TASKS for recipe in find(task).recipes]
# The rows of a published table are one model in several sizes.
SHIPPED = [name for name in NAMES if name not in NEEDS_DOWNLOAD and not name.startswith("language/table")]


@pytest.fixture(scope="module", autouse=True)
def formulas() -> None:
    """Derived, as in a run."""


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Task]:
    """Tasks on their embedded default, each read once."""

    @cache
    def load(name: str) -> Task:
        kind = find(name)
        return kind.load(kind.recipes[kind.default_recipe], None)

    return load


@pytest.mark.sweep(0)  # up to 36 s a recipe whose formulas nobody has derived yet
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_says_what_the_command_line_says(name: str, loaded: Callable[[str], Task]) -> None:
    task_name, _, recipe_name = name.partition("/")
    read = loaded(task_name)
    task = type(read).restore(read.recipes[recipe_name], read.assets())
    table = cost_table(task)
    # With the sizes of the data, as `--at` gives them.
    told = cost_of(resolve(name).at(task.letters()))
    for kind in ("parameters", "flops", "backward_flops"):
        row = table[COST_KEYS.get(kind, kind)]
        numbers = dict(pair.split("=") for pair in row.get("at", "").split(", ") if pair)
        put_in = {symbol(letter): int(size) for letter, size in numbers.items()}
        formula = told.formula(kind)
        assert sympy.expand(formula.subs(put_in) - sympy.sympify(row["formula"], _letters(formula)).subs(put_in)) == 0
        assert len(str(formula)) > LONGEST_FORMULA or row["formula"] == str(formula)
        assert len(row["formula"]) <= 2 * LONGEST_FORMULA
        assert row["value"] == pytest.approx(sum(term["value"] for term in row["terms"].values()))
        sizes = {symbol(letter): size for letter, size in row["sizes"].items()}
        assert row["value"] * row["units"] == pytest.approx(int(formula.subs(sizes)))
    with torch.device("meta"):  # nobody needs the numbers of large models
        assert table["parameters"]["value"] == count_parameters(task.build())


def _letters(formula: sympy.Expr) -> dict[str, sympy.Symbol]:
    return {one.name: one for one in formula.free_symbols}


def _other(value: Any, hint: Any) -> Any:
    """Another value of a field than the one it has, of those that its type allows."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2 if 0 < value < 1 else 0.5
        case str():
            return next(choice for choice in get_args(hint) if choice != value)
    return 3 if int in get_args(hint) else "other"


@pytest.mark.parametrize("task_name", TASKS)
def test_fields_that_the_cache_does_not_tell_apart_change_no_count(task_name: str) -> None:
    """It keeps one formula for all sizes that letters stand for, for all data, and for all probabilities but 0."""
    kind = find(task_name)
    recipe = kind.recipes[kind.default_recipe]
    subject = CostSubject.of(kind.subject(recipe))
    # Sizes that heads, strides and patches divide.
    sizes = dict.fromkeys(_letters_of(subject), 8) | dict(subject.fixed)
    hints, fields = get_type_hints(type(recipe)), settings(recipe)
    between = [name for name, value in fields.items() if isinstance(value, float) and 0 < value < 1]
    changed = {name: _other(fields[name], hints[name]) for name in {*between, *recipe.uncounted} - OF_TRAINING}
    changed |= {name: 2 * fields[name] for name in subject.sized_fields}
    again = CostSubject.of(kind.subject(replace(recipe, **changed)))
    assert _counted(again, sizes) == _counted(subject, sizes)
    assert (again.multiples, again.largest) == (subject.multiples, subject.largest)


def _letters_of(subject: CostSubject) -> tuple[str, ...]:
    return Target(subject.target, subject.inputs).letters


def _counted(subject: CostSubject, sizes: dict[str, int]) -> dict[str, int]:
    return Target(subject.target, subject.inputs).quantities(sizes)


def test_a_size_that_a_stride_does_not_divide_is_a_number_in_the_formula() -> None:
    named = resolve("images/pooled")
    odd = named.at({"Y": 9, "X": 13})
    cost = cost_of(odd)
    assert cost.letters == ("B", "C", "V")
    assert cost.fixed == {"Y": 9, "X": 13}
    counted = cost.target.quantities({"B": 3, "C": 2, "V": 5, "Y": 9, "X": 13})
    assert cost.at(B=3, C=2, V=5).flops == counted["flops "]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("speech/joint", "as long as the longest of train: 217 frames, 39 symbols"),
        ("sentiment/attention", "as long as the longest of train: 16 tokens"),
        ("graphs/best", "A step makes 2 of them (num_augmentations)"),
        ("graphs/sampled", "Counted is a pass over the whole graph"),
        ("graphs/kipf", ""),
        ("images/grid-4", ""),
    ],
)
def test_work_of_training_that_is_not_what_is_counted_is_told(
    name: str, told: str, loaded: Callable[[str], Task]
) -> None:
    """FLOPs a second are those counted of one example, times examples a second: of the longest they are too many."""
    task_name, _, recipe_name = name.partition("/")
    read = loaded(task_name)
    assets = {"frames": 217, "length": 39} if task_name == "speech" else read.assets()
    notes = " ".join(type(read).restore(read.recipes[recipe_name], assets).cost_notes())
    assert told in notes
    assert bool(told) == bool(notes)
