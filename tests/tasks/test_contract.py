"""What every recipe of every task must hold, beside the contract of `check_task` (tests/testing/test_own_tasks.py)."""

from collections.abc import Mapping

import pytest
import torch

from porism.errors import RecipeError
from porism.runs.recipe import override
from porism.tasks import TASKS, find
from porism.training.session import LONGEST_FORMULA, cost_table, count_parameters
from porism.training.task import Task

SMALL: Mapping[str, list[str]] = {
    "language": ["hidden_size=8", "embedding_dim=8", "num_heads=4", "batch_size=4", "seq_len=5"],
    "images": ["hidden_size=8", "batch_size=16"],
    "graphs": ["hidden_size=8", "check_val_every_n_epoch=30"],
    "words": ["vector_size=32", "batch_size=500"],
    "speech": ["hidden_size=8", "num_heads=2", "dim_feedforward=8", "num_layers=1", "batch_size=16"],
    "sentiment": ["hidden_size=32", "num_layers=1", "batch_size=128", "dropout=0", "classifier_dropout=0"],
    "supervised": ["hidden_size=8"],
}
"""For each task the assignments that make its default recipe small."""


@pytest.fixture(scope="module", params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    """The task on its embedded default, which needs no network."""
    kind = find(request.param)
    return kind.load(override(kind.recipes[kind.default_recipe], SMALL[request.param]), None)


def test_the_cost_counts_every_parameter(task: Task) -> None:
    for name, recipe in task.recipes.items():
        small = override(recipe, SMALL[task.name])
        other = type(task).restore(small, task.assets())
        # Large models are counted, too, and nobody needs their numbers.
        with torch.device("meta"):
            parameters = count_parameters(other.build())
        assert cost_table(other)["parameters"]["value"] == parameters, name


def test_the_cost_is_shown_in_formulas_that_can_be_read(task: Task) -> None:
    for recipe in task.recipes.values():
        table = cost_table(type(task).restore(recipe, task.assets()))
        for kind in table.values():
            assert len(kind["formula"]) <= 2 * LONGEST_FORMULA, recipe.name
            # Whatever was put into it, the formula comes to the sum of its terms.
            assert kind["value"] == pytest.approx(sum(term["value"] for term in kind["terms"].values()))
            assert len(kind["formula"]) <= LONGEST_FORMULA or "at" in kind


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"there is no task 'langage'. Did you mean language\?"):
        find("langage")
