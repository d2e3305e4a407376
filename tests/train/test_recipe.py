import pytest

from porism.errors import RecipeError
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.train.recipe import from_fields, override, pick, to_fields

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


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"language has no recipe 'elmann'. Did you mean elman\?"):
        pick(RECIPES, "elmann", "language")
    with pytest.raises(RecipeError, match="Known: elman, lstm, attention"):
        pick(RECIPES, "qqq", "language")
