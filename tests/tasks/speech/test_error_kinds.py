"""Kinds of errors: they sum to the edit distance, and each is what its name says."""

import random

import pytest

from porism.tasks.speech.error_kinds import EDITS, count_words, edit_distances, edit_kinds, swaps
from porism.tasks.speech.metric import measure


@pytest.mark.parametrize(
    ("reference", "hypothesis", "kinds"),
    [
        ("the box", "the box", {}),
        ("the box", "the bax", {"substitution": 1}),
        ("the box", "the bo", {"deletion": 1}),
        ("the box", "the boix", {"insertion": 1}),
        ("the box", "the boox", {"repetition": 1}),
        ("the box", "tthe boxx", {"repetition": 2}),
        ("the box", "the b ox", {"split": 1}),
        ("the box", "thebox", {"join": 1}),
        # A space that is written as a letter joins, and a letter written as a space splits.
        ("the box", "thexbox", {"join": 1}),
        ("the box", "t e box", {"split": 1}),
        # Whole words that are extra or missing come with a space, and neither split nor join any.
        ("the box", "the big box", {"insertion": 4}),
        ("the red box", "the box", {"deletion": 4}),
        ("the box", "the box ", {"insertion": 1}),
        ("the box", "", {"deletion": 7}),
        ("", "a", {"insertion": 1}),
    ],
)
def test_each_kind_is_what_its_name_says(reference: str, hypothesis: str, kinds: dict[str, int]) -> None:
    assert edit_kinds(reference, hypothesis) == dict.fromkeys(EDITS, 0) | kinds


def test_the_kinds_sum_to_the_edit_distance_and_their_rates_to_the_cer() -> None:
    draw = random.Random(1)
    texts = ["".join(draw.choices("ab ", k=draw.randrange(12))) for _ in range(400)]
    references, hypotheses = texts[:200], texts[200:]
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        distance = edit_distances().Levenshtein.distance(reference, hypothesis)
        assert sum(edit_kinds(reference, hypothesis).values()) == distance
    metrics = measure(references, hypotheses)
    assert sum(metrics[f"{kind}_rate"] for kind in EDITS) == pytest.approx(metrics["cer"])


def test_a_swap_of_neighbours_saves_an_edit() -> None:
    assert swaps("the box", "hte bxo") == 2
    assert swaps("the box", "the bax") == 0
    assert measure(["the box"], ["hte bxo"])["swap_rate"] == 2 / 7


def test_words_are_looked_up_without_their_marks() -> None:
    vocabulary = {"where", "is", "the", "box", "fox"}
    assert count_words("where is the box?", "where iss the fox?", vocabulary) == (4, 3, 2, 1)
    metrics = measure(["where is the box?", "the box"], ["where iss the fox?", "the box"], vocabulary)
    assert (metrics["in_vocabulary_rate"], metrics["real_word_rate"]) == (5 / 6, 1 / 2)
    assert "in_vocabulary_rate" not in measure(["a"], ["a"])
