"""What the count of a word's pairs leaves out is said."""

from dataclasses import replace

import pytest

from porism.tasks.words.model.cost import work_notes
from porism.tasks.words.recipes import RECIPES


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("small", "The kernels drop frequent words at random and share negatives among the contexts of a word:"),
        ("nce", "Epochs drop frequent words at random:"),
    ],
)
def test_training_that_computes_less_than_is_counted_says_so(recipe: str, said: str) -> None:
    (note,) = work_notes(RECIPES[recipe])
    assert note.startswith("Counted are 6 pairs a word, the mean of a window of 5, each with its own samples.")
    assert said in note


def test_training_that_computes_what_is_counted_has_nothing_to_say() -> None:
    assert work_notes(replace(RECIPES["nce"], sample=0.0)) == []
