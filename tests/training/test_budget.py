"""What each model of a comparison may see."""

import json
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from porism.errors import RecipeError
from porism.runs.recipe import Recipe, override
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import loop, session
from porism.training.budget import Budget, apply_budget, budget_text, examples_in_epoch, parse_budget
from porism.training.request import TrainingRequest

RECIPES = [Recipe(name="a", description="", epochs=12), Recipe(name="b", description="", epochs=4, patience=7)]


@pytest.mark.parametrize(
    ("text", "epochs"), [("equal", [12, 12]), ("own", [12, 4]), ("epochs=5", [5, 5]), ("examples=100", [10, 10])]
)
def test_a_budget_is_the_same_for_all(text: str, epochs: list[int]) -> None:
    budget = parse_budget(text)
    found = apply_budget(RECIPES, budget, lambda recipe: 10)
    assert [recipe.epochs for recipe in found] == epochs
    assert [recipe.patience for recipe in found] == [3, 7]
    assert budget_text(budget) == text


def test_a_recipe_that_keeps_its_last_epoch_keeps_its_best_of_more() -> None:
    """It was made for four: of twelve the last may be worse than one before. It does not stop early either way."""
    last = Recipe(name="c", description="", epochs=4, restore_best_weights=False)
    more, as_many = (apply_budget([RECIPES[0], last], budget)[1] for budget in ("equal", {"epochs": 4}))
    assert (more.epochs, more.restore_best_weights, more.patience) == (12, True, 12)
    assert as_many == last


def test_time_ends_a_training_and_its_schedule(
    tiny: LanguageRecipe, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learning rate falls to nearly 0 by the time the budget ends, by a clock of its own."""
    looks = count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(looks) / 1000))
    (recipe,) = apply_budget([override(tiny, ["lr_scheduler=cosine", "patience=1000"])], {"seconds": 0.2})
    training = session.begin(TrainingRequest(Language, recipe, source=text, device="cpu", threads=1), tmp_path / "run")
    training.fit()
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    assert events[-1]["reason"] == "0.2 seconds are over"
    assert training.position.seconds >= 0.2
    assert training.position.epoch < recipe.epochs
    rates = [event["learning_rate"] for event in events if event["event"] == "epoch"]
    assert rates[-1] < 0.1 * tiny.learning_rate


def test_examples_of_an_epoch_are_counted(tiny: LanguageRecipe, text: str) -> None:
    task = Language.load(tiny, text)
    assert examples_in_epoch(task) == sum(task.count(batch) for batch in task.batches(1, 1)) > 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fair", "--budget takes equal, own, epochs=N, seconds=N, examples=N, got 'fair'"),
        ("epochs=1.5", r"budget epochs=1\.5 cannot be: expected a whole number from 1 on"),
        ("seconds=0", "budget seconds=0 cannot be: expected a number above 0"),
        ("seconds=nan", "budget seconds=nan cannot be"),
        ("steps=3", "a budget is one of epochs, seconds, examples, got steps"),
    ],
)
def test_budgets_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_budget(text)


@pytest.mark.parametrize("budget", [{}, {"epochs": 1, "seconds": 2}])
def test_a_budget_is_of_one_kind(budget: Budget) -> None:
    with pytest.raises(RecipeError, match="a budget is one of"):
        apply_budget(RECIPES, budget)


def test_fewer_examples_than_an_epoch_are_refused() -> None:
    with pytest.raises(RecipeError, match="budget examples=5 is less than one epoch of recipe a, which is 10"):
        apply_budget(RECIPES, {"examples": 5}, lambda recipe: 10)
