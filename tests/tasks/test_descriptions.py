"""What recipes say of themselves holds by their fields."""

import re

import pytest

from porism.runs.recipe import Recipe, settings
from porism.tasks import TASKS, find
from porism.tasks.language.published import PUBLISHED_ELSEWHERE, TABLE_RUNS

RECIPES = {f"{task}/{name}": recipe for task in TASKS for name, recipe in find(task).recipes.items()}
OF_THE_MODEL = {"images/pooled": {"2"}, "images/strided": {"2"}}
"""Strides and windows that no field sets."""
OF_THE_PUBLISHED = {f"language/{name}": {str(row)} for row, name in enumerate(TABLE_RUNS, 1)} | {
    f"language/{name}": {f"{perplexity:g}"} for name, perplexity in PUBLISHED_ELSEWHERE.items()
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_number_in_a_description_is_one_of_the_fields(name: str) -> None:
    recipe: Recipe = RECIPES[name]
    # Exponents of a matrix and numbers in names are none.
    numbers = set(re.findall(r"(?<![\w^./-])\d[\d,.]*\b", recipe.description))
    known = {str(value) for value in settings(recipe).values()}
    assert numbers <= known | OF_THE_MODEL.get(name, set()) | OF_THE_PUBLISHED.get(name, set())
