from collections.abc import Iterator, Mapping

import pytest

from porism.costing.cost import Cost
from porism.costing.counting.target import Target
from porism.costing.derive import derive
from porism.costing.subject import CostSubject
from porism.runs.recipe import Recipe
from porism.training import recipe_cost


@pytest.fixture(scope="module", autouse=True)
def formulas() -> Iterator[None]:
    """The cost of a run is counted, at its sizes alone: its formulas take forty counts, up to ten seconds a recipe.

    test_cost.py, which is about the formulas of all recipes, has a fixture of this name that leaves them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe_cost, "run_cost", _counted_cost)
        yield


def _counted_cost(_recipe: Recipe, subject: CostSubject, sizes: Mapping[str, int]) -> Cost:
    subject = subject.at(sizes)
    letters = Target(subject.target, subject.inputs).letters
    return derive(subject.target, *subject.inputs, fixed={letter: subject.sizes[letter] for letter in letters})
