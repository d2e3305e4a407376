"""How each shipped recipe was chosen stands in its task's README."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import porism
from porism.tasks import TASKS, find

FOLDER = Path(porism.__file__).parent / "tasks"
TITLE = "### How the settings were chosen\n"


@pytest.mark.parametrize("name", TASKS)
def test_the_readme_tells_of_every_recipe_how_it_was_chosen(name: str) -> None:
    _, title, table = (FOLDER / name / "README.md").read_text().partition(TITLE)
    assert title
    first_cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    told = [pattern for cell in first_cells for pattern in re.findall(r"`([^`]+)`", cell)]
    recipes = find(name).recipes
    assert [recipe for recipe in recipes if not any(fnmatch(recipe, pattern) for pattern in told)] == []
    assert [pattern for pattern in told if not any(fnmatch(recipe, pattern) for recipe in recipes)] == []
