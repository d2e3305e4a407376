"""Recipes from the command line and from files: a recipe whose every field is of its type, or one line."""

import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.mutations import CHANGES, PIECES, Change, changed

from porism.api.recipes import chosen_recipe
from porism.errors import PorismError
from porism.runs.recipe import Recipe, from_fields, override, settings, to_fields
from porism.runs.run import FORMAT, RunFacts, Written
from porism.sweep.space import parse_over
from porism.tasks import TASKS, choices, find
from porism.training.budget import parse_budget

RECIPES = [(task, name) for task in TASKS for name in choices(task).recipes]
TEXTS = st.sampled_from([piece.decode(errors="replace") for piece in PIECES]) | st.text(max_size=12)
NUMBERS = st.integers().map(str) | st.floats().map(str) | st.sampled_from(["0", "1", "-1", "2", "0.5", "1e400", "0x10"])
WORDS = st.sampled_from(
    ["true", "false", "none", "null", "True", "adam", "sgd", "auto", "bf16", "elman", "words", "[1,2]"]
)
VALUES = NUMBERS | WORDS | TEXTS


@st.composite
def assignments(draw: st.DrawFn) -> tuple[Recipe, list[str]]:
    """A recipe and some texts of --set, most of them about its fields."""
    task, name = draw(st.sampled_from(RECIPES))
    recipe = choices(task).recipes[name]
    fields = (
        st.sampled_from(sorted(settings(recipe))) | st.sampled_from(["name", "hidden", "", "task", "model "]) | TEXTS
    )
    texts = draw(st.lists(st.builds("{}={}".format, fields, VALUES) | TEXTS, min_size=1, max_size=3))
    return recipe, texts


def check_recipe(recipe: Recipe) -> None:
    """Its values are of the fields' types, finite, and survive a file."""
    fields = to_fields(recipe)
    for value in fields.values():
        assert not isinstance(value, float) or math.isfinite(value)
        assert not isinstance(value, int) or abs(value) < 2**63
    assert from_fields(type(recipe), fields) == recipe


def test_what_is_set_is_of_its_type_or_refused(fuzz: Fuzz) -> None:
    outcomes = []

    def check(case: tuple[Recipe, list[str]]) -> None:
        found = attempt(lambda: override(*case))
        outcomes.append(isinstance(found, PorismError))
        if not isinstance(found, PorismError):
            check_recipe(found)

    fuzz(assignments(), check, share=150, whole=3000)
    check_both(outcomes)


def test_ranges_of_a_sweep_are_read_or_refused(fuzz: Fuzz) -> None:
    recipe = choices("language").recipes["elman"]
    values = st.lists(VALUES, min_size=1, max_size=3).map(",".join) | st.builds(
        "{}..{}{}".format, VALUES, VALUES, VALUES
    )
    over = st.builds("{}={}".format, st.sampled_from(sorted(settings(recipe))) | TEXTS, values)
    fuzz(over, lambda text: attempt(lambda: parse_over(recipe, [text])), share=60, whole=1000)


def test_budgets_are_read_or_refused(fuzz: Fuzz) -> None:
    kinds = st.sampled_from(["epochs", "seconds", "examples", "equal", "own"]) | TEXTS
    budgets = st.builds("{}={}".format, kinds, VALUES) | kinds
    fuzz(budgets, lambda text: attempt(lambda: parse_budget(text)), share=60, whole=500)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The recipe.toml of a run of every task."""
    found = {}
    for task in TASKS:
        recipe = choices(task).recipes[choices(task).default]
        facts = RunFacts(
            task=task, recipe=recipe.name, seed=1, device="cpu", precision="fp32", threads=1, fingerprint="0" * 64,
            source="a.txt", overrides=["epochs=3"],
        )  # fmt: skip
        found[task] = Written(facts=facts, fields=to_fields(recipe), format=FORMAT).encode()
    return found


def test_a_damaged_recipe_file_is_a_recipe_or_refused(fuzz: Fuzz, files: dict[str, bytes], tmp_path: Path) -> None:
    path, outcomes = tmp_path / "recipe.toml", []

    def check(case: tuple[str, list[Change]]) -> None:
        task, changes = case
        path.unlink(missing_ok=True)
        for content in changed({"recipe.toml": files[task]}, changes).values():
            path.write_bytes(content)
        found = attempt(lambda: chosen_recipe(find(task), str(path), None))
        outcomes.append(isinstance(found, PorismError))
        if not isinstance(found, PorismError):
            assert dataclasses.is_dataclass(found)

    fuzz(st.tuples(st.sampled_from(sorted(files)), CHANGES), check, share=100, whole=2000)
    check_both(outcomes)
