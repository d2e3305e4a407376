"""What must hold of tasks by name, beside the contract of `check_task` (tests/testing/test_own_tasks.py)."""

import pytest

from porism.errors import RecipeError
from porism.tasks import find


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"there is no task 'langage'. Did you mean language\?"):
        find("langage")
