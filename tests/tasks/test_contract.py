"""What every task must hold, once for all of them."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from porism.errors import DataError, RecipeError
from porism.runs.recipe import override
from porism.tasks import TASKS, find
from porism.training.loop import evaluate
from porism.training.session import LONGEST_FORMULA, cost_table, count_parameters
from porism.training.task import Task

SMALL: Mapping[str, list[str]] = {
    "language": ["hidden_size=8", "embedding_dim=8", "num_heads=4", "batch_size=4", "seq_len=5"],
    "images": ["hidden_size=8", "batch_size=16"],
    "graphs": ["hidden_size=8", "check_val_every_n_epoch=30"],
    "words": ["vector_size=32", "batch_size=500"],
    "speech": ["hidden_size=8", "num_heads=2", "dim_feedforward=8", "num_layers=1", "batch_size=16"],
}
"""For each task the assignments that make its default recipe small."""
INPUTS: Mapping[str, list[str]] = {
    "language": ["the object", "zzzz"],
    "images": [str(Path(__file__).parent / "images" / "seven.pgm")],
    "graphs": ["5", "karate"],
    "words": ["function", "the"],
    "speech": [str(Path(__file__).parent / "speech" / "glide.wav")],
}


@pytest.fixture(scope="module", params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    """The task on its embedded default, which needs no network."""
    kind = find(request.param)
    return kind.load(override(kind.recipes[kind.default_recipe], SMALL[request.param]), None)


def test_every_recipe_has_its_own_name_and_a_line_for_people(task: Task) -> None:
    assert task.default_recipe in task.recipes
    for name, recipe in task.recipes.items():
        assert recipe.name == name
        assert recipe.description
        with pytest.raises(dataclasses.FrozenInstanceError):
            recipe.epochs = 1  # type: ignore[misc]


def test_a_model_starts_from_the_seed_alone(task: Task) -> None:
    def weights(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        return list(task.build().parameters())

    assert all(torch.equal(a, b) for a, b in zip(weights(1), weights(1), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights(1), weights(2), strict=True))


def test_a_pass_can_be_taken_up_at_any_position(task: Task) -> None:
    first, again = task.batches(1, 1), task.batches(1, 1)
    assert len(first) == len(again) > 1
    for index in (0, len(first) // 2, len(first) - 1):
        assert all(torch.equal(a, b) for a, b in zip(first[index], again[index], strict=True))
        assert task.count(first[index]) > 0


def test_a_few_steps_lower_the_loss(task: Task) -> None:
    torch.manual_seed(1)
    model = task.build()
    maker = torch.optim.Adam(model.parameters(), 0.01)
    carry, losses = task.start(model), []
    for index in range(30):
        loss, carry = task.loss(model, task.batches(1, 1)[index], carry)
        maker.zero_grad()
        loss.backward()
        maker.step()
        losses.append(loss.item())
        assert all(not x.requires_grad for x in carry.values())
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert all(p.grad is not None for p in model.parameters())


def test_evaluation_is_clean(task: Task) -> None:
    torch.manual_seed(1)
    model = task.build()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    random = torch.get_rng_state()
    for split in task.splits[1:]:
        first = evaluate(task, model, split)
        assert first == evaluate(task, model, split)
        assert task.metric in first
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_assets_are_plain_and_bring_the_model_back(task: Task) -> None:
    assets: dict[str, Any] = json.loads(json.dumps(task.assets()))
    restored = type(task).restore(task.recipe, assets)
    model = task.build()
    rebuilt = restored.build()
    rebuilt.load_state_dict(model.state_dict(), strict=True)
    inputs = INPUTS[task.name]
    answers = restored.predict(rebuilt.eval(), inputs, {})
    assert [answer.prompt for answer in answers] == inputs
    assert answers == task.predict(model.eval(), inputs, {})
    assert task.show(model)


def test_the_cost_counts_every_parameter(task: Task) -> None:
    for name, recipe in task.recipes.items():
        small = override(recipe, SMALL[task.name])
        other = type(task).restore(small, task.assets())
        assert cost_table(other)["parameters"]["value"] == count_parameters(other.build()), name


def test_the_cost_is_shown_in_formulas_that_can_be_read(task: Task) -> None:
    for recipe in task.recipes.values():
        table = cost_table(type(task).restore(recipe, task.assets()))
        for kind in table.values():
            assert len(kind["formula"]) <= 2 * LONGEST_FORMULA, recipe.name
            # Whatever was put into it, the formula comes to the sum of its terms.
            assert kind["value"] == pytest.approx(sum(term["value"] for term in kind["terms"].values()))
            assert len(kind["formula"]) <= LONGEST_FORMULA or "at" in kind


def test_the_fingerprint_is_of_the_data(task: Task) -> None:
    kind = type(task)
    assert task.fingerprint() == kind.load(task.recipe, None).fingerprint()
    assert len(task.fingerprint()) == 64


def test_missing_data_is_a_clear_error(task: Task) -> None:
    with pytest.raises(DataError, match="nowhere"):
        type(task).load(task.recipe, "nowhere/at/all")


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"there is no task 'langage'. Did you mean language\?"):
        find("langage")
