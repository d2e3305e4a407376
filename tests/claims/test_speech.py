"""What the claims on speech are judged by is itself right; statements with an assumption hold within it."""

import random
from typing import Any

import pytest

from porism.claims.claim import Claim
from porism.claims.ledger import all_claims
from porism.claims.topics.speech.similarities import PAIRS, UNITS, fewest_edits
from porism.tasks.speech.error_kinds import edit_distances
from porism.tasks.speech.metric import SIMILARITIES


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


def test_words_that_come_once_are_compared_as_stated() -> None:
    a, b = PAIRS[0]
    for stated, name in ((claim("003-47").stated(a, b, "words"), "jaccard"), (claim("003-48").stated(a, b), "cosine")):
        assert stated == pytest.approx(SIMILARITIES[name](a.split(), b.split()))


def test_one_pair_of_texts_has_many_values() -> None:
    a, b = PAIRS[1]
    jaccard, cosine = claim("003-47"), claim("003-48")
    assert jaccard.corrected is not None
    assert cosine.rival is not None
    assert jaccard.stated(a, b, "words") == pytest.approx(5 / 6)
    assert [jaccard.corrected(a, b, unit) for unit in UNITS] == pytest.approx([5 / 7, 19 / 23])
    assert [cosine.stated(a, b), cosine.rival(a, b)] == pytest.approx([6 / 48**0.5, 5 / 6])
    assert SIMILARITIES["cosine"](a, b) == pytest.approx(19 / 440**0.5)


def test_the_library_measures_what_the_ledger_says_it_does() -> None:
    """003-47 and 003-48 name it."""
    textdistance = pytest.importorskip("textdistance")
    a, b = PAIRS[1]
    assert textdistance.Jaccard(as_set=False)(a.split(), b.split()) == pytest.approx(5 / 7)
    assert textdistance.Cosine(as_set=False)(a.split(), b.split()) == pytest.approx(5 / 6)
