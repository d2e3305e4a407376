import math
from dataclasses import dataclass

import pytest

from porism.errors import RecipeError
from porism.runs.recipe import check_finite, from_fields, override, pick, to_fields
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.speech.recipes import RECIPES as SPEECH

RECIPE = RECIPES["table-02"]


def test_override_takes_each_fields_type() -> None:
    changed = override(
        RECIPE,
        [
            "hidden_size=200",
            "learning_rate=1e-2",
            "variational_dropout=true",
            "max_grad_norm=.5",
            "lr_scheduler=cosine",
        ],
    )
    assert (changed.hidden_size, changed.learning_rate, changed.variational_dropout, changed.max_grad_norm) == (
        200,
        0.01,
        True,
        0.5,
    )
    assert changed.lr_scheduler == "cosine"
    assert override(changed, ["max_grad_norm=none"]).max_grad_norm is None
    assert RECIPE.hidden_size == 100


@pytest.mark.parametrize("name", RECIPES)
def test_fields_bring_a_recipe_back(name: str) -> None:
    assert from_fields(LanguageRecipe, to_fields(RECIPES[name])) == RECIPES[name]


def test_none_of_a_field_with_another_default_is_refused() -> None:
    """A file has no word for it: the field would come back with its default."""

    @dataclass(frozen=True, kw_only=True)
    class OwnRecipe(LanguageRecipe):
        margin: float | None = 0.5

    with pytest.raises(RecipeError, match="own: margin is None, and a file cannot hold it"):
        to_fields(OwnRecipe(name="own", description="", margin=None))
    assert to_fields(OwnRecipe(name="own", description=""))["margin"] == 0.5


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("hiden=200", r"recipe table-02 has no field 'hiden'. Did you mean hidden_size\?"),
        (
            "hidden_size=many",
            "recipe table-02: hidden_size=many cannot be: expected int, got str. Set it with --hidden-size.",
        ),
        ("hidden_size=0", "recipe table-02: hidden_size=0 cannot be: expected int >= 1. Set it with --hidden-size."),
        ("hidden_size=1.5", "hidden_size=1.5 cannot be"),
        ("learning_rate=-1", "learning_rate=-1 cannot be: expected float > 0"),
        ("dropout=-0.5", "dropout=-0.5 cannot be: expected float >= 0"),
        ("learning_rate=inf", "recipe table-02: learning_rate=inf cannot be: expected a finite number. Set it with"),
        ("learning_rate=1e999", "learning_rate=inf cannot be: expected a finite number"),
        ("weight_decay=inf", "weight_decay=inf cannot be: expected a finite number"),
        ("max_grad_norm=Infinity", "max_grad_norm=inf cannot be: expected a finite number"),
        ("max_grad_norm=nan", "max_grad_norm=nan cannot be"),
        ("hidden_size=inf", "hidden_size=inf cannot be"),
        (
            "hidden_size=9223372036854775808",
            "hidden_size=9223372036854775808 cannot be: expected int <= 2147483647",
        ),
        ("lr_scheduler=step", "lr_scheduler=step cannot be: expected one of constant, linear, cosine"),
        ("tie_weights=perhaps", "tie_weights=perhaps cannot be: expected bool, got str"),
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
    with pytest.raises(RecipeError, match=f"length_bonus={value} cannot be: expected a finite number"):
        override(SPEECH["joint"], [f"length_bonus={value}"])


def test_a_stored_recipe_without_a_finite_norm_can_be_read_but_not_trained_anew() -> None:
    stored = from_fields(LanguageRecipe, {**to_fields(RECIPE), "max_grad_norm": math.inf})
    with pytest.raises(RecipeError, match="max_grad_norm=inf cannot be: expected a finite number"):
        check_finite(stored)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"language has no recipe 'elmann'. Did you mean elman\?"):
        pick(RECIPES, "elmann", "language")
    with pytest.raises(RecipeError, match=r"Known: elman, lstm, (\S+, ){7}\S+ and \d+ more\."):
        pick(RECIPES, "qqq", "language")


@pytest.mark.parametrize("field", ["epochs=2147483648", "hidden_size=9223372036854775807", "num_layers=10001"])
def test_counts_that_no_training_has_are_refused(field: str) -> None:
    with pytest.raises(RecipeError, match=f"{field} cannot be: expected int <="):
        override(RECIPES["lstm"], [field])
