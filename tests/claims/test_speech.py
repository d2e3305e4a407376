"""What the claims on speech are judged by is itself right; statements with an assumption hold within it."""

import random
from typing import Any

import pytest

from porism.claims.claim import Claim
from porism.claims.ledger import all_claims
from porism.claims.topics.speech.similarities import PAIRS, UNITS, fewest_edits
from porism.tasks.speech.error_kinds import edit_distances
from porism.tasks.speech.metric import SIMILARITIES

NAMES = {"003-47": "jaccard", "003-48": "cosine"}


def claim(number: str) -> Claim[Any]:
    found = all_claims()[number]
    assert isinstance(found, Claim)
    return found


def test_the_fewest_edits_are_those_of_the_library() -> None:
    draw = random.Random(1)
    for _ in range(50):
        a, other = ("".join(draw.choices("abcd", k=draw.randrange(7))) for _ in range(2))
        # In another order, so that there is something to swap.
        shuffled = "".join(draw.sample(a, len(a)))
        for b in (shuffled, other):
            assert fewest_edits(a, b) == edit_distances().OSA.distance(a, b), (a, b)


def test_a_swap_that_is_edited_again_would_save_a_step() -> None:
    assert fewest_edits("ca", "abc") == 3
    assert edit_distances().DamerauLevenshtein.distance("ca", "abc") == 2


@pytest.mark.parametrize("number", NAMES)
def test_words_that_come_once_are_compared_as_stated(number: str) -> None:
    a, b = PAIRS[0]
    assert claim(number).stated(a, b, "words") == pytest.approx(SIMILARITIES[NAMES[number]](a.split(), b.split()))


@pytest.mark.parametrize(
    ("number", "stated", "by_words", "by_characters"),
    [("003-47", 5 / 6, 5 / 7, 19 / 23), ("003-48", 6 / 48**0.5, 5 / 6, 19 / 440**0.5)],
)
def test_one_pair_of_texts_has_many_values(number: str, stated: float, by_words: float, by_characters: float) -> None:
    a, b = PAIRS[1]
    found = claim(number)
    assert found.corrected is not None
    for unit, value in zip(UNITS, (by_words, by_characters), strict=True):
        assert found.stated(a, b, unit) == pytest.approx(stated)
        assert found.corrected(a, b, unit) == pytest.approx(value)
