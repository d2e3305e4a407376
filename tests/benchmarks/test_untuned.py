"""The benchmark of defaults on data nobody tuned for says who wins, whichever way the metric points."""

import pytest

import untuned
from porism.errors import RecipeError


def row(values: tuple[float, ...], baseline: float | None, lower: bool = False) -> untuned.Row:
    return untuned.Row(
        "images", "a/pictures", "grid-4", "accuracy", lower, values, "HOG", baseline, (3,), 5, 1.0, "says"
    )


@pytest.mark.parametrize(
    ("values", "baseline", "lower", "winner"),
    [
        ((0.9, 0.8), 0.84, False, "porism"),
        ((0.9, 0.8), 0.86, False, "baseline"),
        ((70.0,), 71.0, True, "porism"),
        ((72.0,), 71.0, True, "baseline"),
        ((0.5,), 0.5, False, "tie"),
        ((), None, False, "not measured"),
        ((0.5,), None, False, "no baseline"),
    ],
)
def test_who_wins(values: tuple[float, ...], baseline: float | None, lower: bool, winner: str) -> None:
    assert row(values, baseline, lower).winner == winner
    assert untuned.table([row(values, baseline, lower)]).row_count == 1


def test_an_argument_is_a_task_and_its_data() -> None:
    assert untuned.parsed("images:c:/pictures") == ("images", "c:/pictures")
    for wrong in ("pictures", "images:"):
        with pytest.raises(RecipeError, match="expected TASK:DATA"):
            untuned.parsed(wrong)
