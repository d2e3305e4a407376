import math

import pytest

from porism.errors import RecipeError
from porism.runs.recipe import check_finite, from_fields, override, pick, to_fields
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.speech.recipes import RECIPES as SPEECH

RECIPE = RECIPES["table-02"]


def test_override_takes_each_fields_type() -> None:
    changed = override(RECIPE, ["hidden=200", "learning_rate=1e-2", "locked=true", "clip=.5", "schedule=cosine"])
    assert (changed.hidden, changed.learning_rate, changed.locked, changed.clip) == (200, 0.01, True, 0.5)
    assert changed.schedule == "cosine"
    assert override(changed, ["clip=none"]).clip is None
    assert RECIPE.hidden == 100


@pytest.mark.parametrize("name", RECIPES)
def test_fields_bring_a_recipe_back(name: str) -> None:
    assert from_fields(LanguageRecipe, to_fields(RECIPES[name])) == RECIPES[name]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("hiden=200", r"recipe table-02 has no field 'hiden'. Did you mean hidden\?"),
        ("hidden=many", "recipe table-02: hidden=many cannot be: expected int, got str. Set it with --set."),
        ("hidden=0", "recipe table-02: hidden=0 cannot be: expected int >= 1. Set it with --set."),
        ("hidden=1.5", "hidden=1.5 cannot be"),
        ("learning_rate=-1", "learning_rate=-1 cannot be: expected float > 0"),
        ("keep=1.5", "keep=1.5 cannot be: expected float <= 1"),
        ("learning_rate=inf", "recipe table-02: learning_rate=inf cannot be: expected a finite number. Set it with"),
        ("learning_rate=1e999", "learning_rate=inf cannot be: expected a finite number"),
        ("weight_decay=inf", "weight_decay=inf cannot be: expected a finite number"),
        ("clip=Infinity", "clip=inf cannot be: expected a finite number"),
        ("clip=nan", "clip=nan cannot be"),
        ("hidden=inf", "hidden=inf cannot be"),
        ("hidden=9223372036854775808", "hidden=9223372036854775808 cannot be: expected int <= 9223372036854775807"),
        ("schedule=step", "schedule=step cannot be: invalid enum value 'step'"),
        ("tied=perhaps", "tied=perhaps cannot be: expected bool, got str"),
        ("hidden", "--set takes field=value, got 'hidden'. Write for instance --set epochs=10."),
        ("name=x", "recipe table-02 has no field 'name'"),
    ],
)
def test_a_bad_assignment_is_one_clear_line(assignment: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        override(RECIPE, [assignment])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_number_without_bounds_is_finite_too(value: str) -> None:
    with pytest.raises(RecipeError, match=f"bonus={value} cannot be: expected a finite number"):
        override(SPEECH["joint"], [f"bonus={value}"])


def test_a_stored_recipe_without_a_finite_clip_can_be_read_but_not_trained_anew() -> None:
    stored = from_fields(LanguageRecipe, {**to_fields(RECIPE), "clip": math.inf})
    with pytest.raises(RecipeError, match="clip=inf cannot be: expected a finite number"):
        check_finite(stored)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"language has no recipe 'elmann'. Did you mean elman\?"):
        pick(RECIPES, "elmann", "language")
    with pytest.raises(RecipeError, match="Known: elman, lstm, attention"):
        pick(RECIPES, "qqq", "language")
